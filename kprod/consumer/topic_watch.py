# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Detects why partitions cannot be read although brokers respond: unknown topics, missing rights.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

`poll` raises a problem once, as soon as it is known; afterwards only a `poll` that would return
nothing raises it again, as long as the problem lasts. So an application notices it, and one that
ignores it does not loop without waiting.

Thread-safety: the I/O thread; `problem` from any thread.
"""

import enum
from collections.abc import Callable
from typing import TypeAlias

from kprod.cluster.metadata import Metadata
from kprod.consumer.assignment import Assignment
from kprod.consumer.mailbox import Mailbox
from kprod.consumer.position import AssignedPartition
from kprod.errors import KprodError, UnknownPartition, UnknownTopic, own_copy
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode

TOPIC_WAIT_MS = 5_000  # time after which an unknown topic counts as missing


class Whole(enum.Enum):
    """A subject of problems that is no partition and no topic."""

    CLUSTER = "the whole cluster"
    GROUP = "the consumer's group"
    PATTERN = "the topics of the subscribed pattern"


_Subject: TypeAlias = TopicPartition | str | Whole


class TopicWatch:
    """The current problems of one consumer."""

    def __init__(
        self,
        metadata: Metadata,
        assignment: Assignment,
        mailbox: Mailbox,
        *,
        on_partitions: Callable[[str, int], object],
        on_count: Callable[[str, int], object],
    ) -> None:
        """Start with no problems.

        Args:
            metadata: Provides the existing topics.
            assignment: Provides the assigned partitions.
            mailbox: Carries errors to the polling thread.
            on_partitions: Called with a topic that is read as a whole and its number of partitions,
                if some are not assigned.
            on_count: Called with a topic of the group and its number of partitions.
        """
        self._metadata = metadata
        self._assignment = assignment
        self._mailbox = mailbox
        self._on_partitions = on_partitions
        self._on_count = on_count
        self._missing_since: dict[str, int] = {}
        self._problems: dict[_Subject, KprodError] = {}

    @property
    def problem(self) -> KprodError | None:
        """A current problem, to be raised; any thread."""
        for error in list(self._problems.values()):
            return own_copy(error)
        return None

    def look(self, now_ms: int) -> None:
        """Compare the assignment with the metadata.

        Args:
            now_ms: Monotonic time.
        """
        names = self._assignment.names
        for name in names:
            count = self._metadata.snapshot.partition_count(name)
            error = self._metadata.error_of(name)
            if count is not None:
                self._missing_since.pop(name, None)
                self._problems.pop(name, None)
                self._look_at_partitions(name, count)
            elif error is not None and not self._is_dropped(error):
                since_ms = self._missing_since.setdefault(name, now_ms)
                if not error.retriable or now_ms - since_ms >= TOPIC_WAIT_MS:
                    self.note(name, topic_error(name, error))
        for subject in [it for it in self._problems if isinstance(it, str) and it not in names]:
            del self._problems[subject]

    def _is_dropped(self, error: KprodError) -> bool:
        """Whether a topic that matched a pattern is gone, which drops it from the subscription."""
        if self._assignment.pattern is None:
            return False
        return getattr(error, "code", None) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def look_for_rejection(self) -> None:
        """Report a cluster-wide error that is not retriable, such as rejected credentials."""
        try:
            self._metadata.is_newer_than(0)
        except KprodError as error:
            self.note(Whole.CLUSTER, error)
        else:
            self._problems.pop(Whole.CLUSTER, None)

    def note(self, subject: _Subject, error: KprodError) -> None:
        """Report a problem; a new one is raised.

        Args:
            subject: A partition, a topic, the cluster, or the group.
            error: The error; copies of it are raised.
        """
        before = self._problems.get(subject)
        self._problems[subject] = error
        if before is None or type(before) is not type(error):
            self._mailbox.hand(_Raise(error))

    def forget_problem(self, subject: TopicPartition | Whole) -> None:
        """Remove a problem, since it does not last.

        Args:
            subject: A partition that was fetched or whose position has changed, or the group.
        """
        if self._problems:
            self._problems.pop(subject, None)

    def works(self, partition: AssignedPartition) -> None:
        """Remove a problem of a partition, since records of it were fetched; no Python code runs.

        Args:
            partition: An assigned partition.
        """
        if self._problems:
            self._problems.pop(partition.key, None)

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
        elif name in (self._assignment.shared or ()):
            self._on_count(name, count)


class _Raise:
    """A step that raises an error."""

    __slots__ = ("_error",)

    def __init__(self, error: KprodError) -> None:
        self._error = error

    def __call__(self) -> None:
        raise own_copy(self._error)


def topic_error(name: str, error: KprodError | None) -> KprodError:
    """Create the error for a topic without metadata.

    Args:
        name: The topic's name.
        error: The brokers' error; None if they do not list the topic.

    Returns:
        `UnknownTopic`, or the brokers' error if it is another one.
    """
    if error is None or getattr(error, "code", None) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(f"the cluster has no topic {name!r}")
    return error
