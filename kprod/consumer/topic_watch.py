"""What keeps partitions from being read although brokers answer: unknown topics, refused rights.

A problem is raised once by `poll`, as soon as it is known; after that a `poll` that would return
nothing raises it again, as long as it lasts. So an application notices, and one that ignores it
does not spin.

Thread-safety: the I/O thread; any thread may read `problem`.
"""

from collections.abc import Callable
from typing import TypeAlias

from kprod.cluster.metadata import Metadata
from kprod.consumer.assignment import Assignment
from kprod.consumer.mailbox import Mailbox
from kprod.errors import KprodError, UnknownPartition, UnknownTopic, own_copy
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

TOPIC_WAIT_MS = 5_000  # how long a topic may be unknown before it counts as missing

_Subject: TypeAlias = TopicPartition | str | None  # a partition, a topic, or the cluster


class TopicWatch:
    """The problems of one consumer."""

    def __init__(
        self,
        metadata: Metadata,
        assignment: Assignment,
        mailbox: Mailbox,
        on_partitions: Callable[[str, int], object],
    ) -> None:
        """Start without problems.

        Args:
            metadata: Knows which topics there are.
            assignment: Names those that are read.
            mailbox: Takes errors to be raised.
            on_partitions: Told how many partitions a topic has that is read as a whole, if some
                are not read yet.
        """
        self._metadata = metadata
        self._assignment = assignment
        self._mailbox = mailbox
        self._on_partitions = on_partitions
        self._missing_since: dict[str, int] = {}
        self._problems: dict[_Subject, KprodError] = {}

    @property
    def problem(self) -> KprodError | None:
        """Some problem that lasts, to be raised; any thread."""
        for error in list(self._problems.values()):
            return own_copy(error)
        return None

    def look(self, now_ms: int) -> None:
        """Compare the assignment with what the cluster has.

        Args:
            now_ms: Monotonic.
        """
        names = self._assignment.names
        for name in names:
            count = self._metadata.snapshot.partition_count(name)
            error = self._metadata.error_of(name)
            if count is not None:
                self._missing_since.pop(name, None)
                self._problems.pop(name, None)
                self._look_at_partitions(name, count)
            elif error is not None:
                since_ms = self._missing_since.setdefault(name, now_ms)
                if not error.retriable or now_ms - since_ms >= TOPIC_WAIT_MS:
                    self.note(name, _error_of(name, error))
        for subject in [it for it in self._problems if isinstance(it, str) and it not in names]:
            del self._problems[subject]

    def look_for_refusal(self) -> None:
        """Note an error of the cluster that time cannot mend, such as refused credentials."""
        try:
            self._metadata.is_newer_than(0)
        except KprodError as error:
            self.note(None, error)
        else:
            self._problems.pop(None, None)

    def note(self, subject: _Subject, error: KprodError) -> None:
        """Note a problem, and have it raised if it is new.

        Args:
            subject: Its partition, topic, or None for the cluster.
            error: Never raised itself, but copies of it.
        """
        before = self._problems.get(subject)
        self._problems[subject] = error
        if before is None or type(before) is not type(error):
            self._mailbox.hand(_Raise(error))

    def forget_problem(self, key: TopicPartition) -> None:
        """Note that a partition works, or is read from elsewhere.

        Args:
            key: Any partition.
        """
        if self._problems:
            self._problems.pop(key, None)

    def _look_at_partitions(self, name: str, count: int) -> None:
        for key in self._assignment.partitions:
            if key.topic != name:
                continue
            if key.partition >= count:
                self.note(
                    key,
                    UnknownPartition(
                        f"topic {name!r} has partitions 0 to {count - 1}, not {key.partition}"
                    ),
                )
            elif isinstance(self._problems.get(key), UnknownPartition):
                del self._problems[key]
        if name in self._assignment.topics:
            self._on_partitions(name, count)


class _Raise:
    """A step that raises."""

    __slots__ = ("_error",)

    def __init__(self, error: KprodError) -> None:
        self._error = error

    def __call__(self) -> None:
        raise own_copy(self._error)


def _error_of(name: str, error: KprodError) -> KprodError:
    code = getattr(error, "code", None)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"the cluster has no topic {name!r}")
    return error
