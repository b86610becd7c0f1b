"""Implements commits in the application's threads: sync, async, and before a rebalance.

Callbacks of asynchronous commits run in the thread that polls, in the order of the commits; those
that are due run before a synchronous commit returns.

Thread-safety: any thread; `run_callbacks` on a thread of the application.
Source: Kafka ConsumerCoordinator.commitOffsetsSync, commitOffsetsAsync (clients 4.3.1).
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kprod._core.outcome.batch_result import BatchResult
from kprod.consumer.assignment import as_partitions
from kprod.consumer.given_offsets import offset_after, offsets_of
from kprod.consumer.group.auto_commit import places_of, stored_of
from kprod.consumer.group.commits import Commit
from kprod.consumer.group.committed_offsets import CommittedQuestion
from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.partition_texts import named
from kprod.consumer.parts import ConsumerParts
from kprod.errors import CommitFailed, ConfigError, KprodError, own_copy
from kprod.guarded_log import guarded_logger
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.threads import current_ident

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KprodError | None], object]
"""A callback of `commit_async`: the offsets, and the error or None."""

_logger = guarded_logger(__name__)


class AwaitedCommit(NamedTuple):
    """A commit that a thread waits for.

    Attributes:
        group: The consumer's.
        commit: The commit.
        done: Complete at its end.
        errors: Its error; empty without one.
    """

    group: GroupParts
    commit: Commit
    done: BatchResult
    errors: list[KprodError]


class CommitCalls:
    """The commits of one consumer."""

    def __init__(self, parts: ConsumerParts) -> None:
        """Start without commits.

        Args:
            parts: The consumer's parts.
        """
        self._parts = parts
        self._due: deque[Callable[[], object]] = deque()
        self._callers: set[Hashable] = set()  # threads that run callbacks
        self._open: dict[object, None] = {}  # asynchronous commits without a result

    def commit(self, given: Mapping[Any, object] | None, timeout: float | None) -> None:
        """Implement `Consumer.commit`."""
        group = self._group()
        offsets = self._offsets(given)
        if offsets:
            limit_s = self._parts.api_limit(timeout)
            self.commit_and_wait(group, offsets, self._until_ms(limit_s))
        self.run_callbacks()

    def store(self, given: Any) -> None:  # noqa: ANN401 - a mapping, or a record of any class
        """Implement `Consumer.store_offsets`."""
        self._group()
        if self._parts.config.auto_offset_store:
            raise ConfigError(
                "auto_offset_store is True: commits take the positions, which the application has"
                " asked past; make the consumer with auto_offset_store=False to store offsets"
            )
        offsets = offsets_of(given) if isinstance(given, Mapping) else offset_after(given)
        owned = self._parts.assignment.partitions
        self._check_assigned([key for key in offsets if key not in owned], "stored")
        for key, it in offsets.items():
            owned[key].stored = it

    def note_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Forget stored offsets that are committed, and tell the interceptors; the I/O thread.

        Args:
            offsets: The committed offsets.
        """
        owned = self._parts.assignment.partitions
        for key, it in offsets.items():
            partition = owned.get(key)
            if partition is not None and partition.stored is it:
                partition.stored = None
        if not self._parts.interceptors.is_empty:
            self._due.append(partial(self._parts.interceptors.on_commit, offsets))
            self._parts.mailbox.hand(self.run_callbacks)

    def begin(
        self,
        given: Mapping[Any, object] | None,
        timeout: float | None,
        on_end: Callable[[KprodError | None], object],
    ) -> None:
        """Send a commit, without waiting for its end.

        Args:
            given: As for `Consumer.commit`.
            timeout: As there.
            on_end: Called once with the error or None, on the I/O thread or at once.

        Raises:
            KprodError: As for `Consumer.commit_async`.
        """
        group = self._group()
        offsets = self._offsets(given)

        def end(error: KprodError | None) -> None:
            if error is None:
                self.note_committed(offsets)
            on_end(error)

        if offsets:
            limit_s = self._parts.api_limit(timeout)
            self._post(group, Commit(offsets, self._until_ms(limit_s), end))
        else:
            on_end(None)

    def commit_async(self, given: Mapping[Any, object] | None, callback: OnCommit | None) -> None:
        """Implement `Consumer.commit_async`."""
        if callback is not None and not callable(callback):
            raise TypeError(f"a callback is a function, not {type(callback).__name__}")
        group = self._group()
        offsets = self._offsets(given)

        def done(error: KprodError | None) -> None:
            if done in self._open or not offsets:  # else an exception ended the first call
                if error is None and offsets:
                    self.note_committed(offsets)
                self._due.append(partial(_report, callback, offsets, error))
                self._open.pop(done, None)
            self._parts.mailbox.hand(self.run_callbacks)

        if not offsets:
            done(None)
            return
        until_ms = self._until_ms(self._parts.api_limit(None))
        self._open[done] = None
        self._post(group, Commit(offsets, until_ms, done))

    def wait_async(self, limit_s: float) -> None:
        """Wait until the asynchronous commits have their results, before partitions are given up.

        Args:
            limit_s: Seconds to wait at most.
        """
        self.have_ended(self._until_ms(limit_s))

    def have_ended(self, until_ms: int) -> bool:
        """Wait until the asynchronous commits have their results.

        Args:
            until_ms: Deadline, monotonic.

        Returns:
            Whether they have.
        """
        self._parts.wait_until(lambda: not self._open, until_ms)
        return not self._open

    def committed(
        self, given: Iterable[object], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Implement `Consumer.committed`."""
        group, keys = self._group(), as_partitions(given)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        errors: list[KprodError] = []
        done = BatchResult("", 0)

        def take(key: TopicPartition, answer: OffsetAndMetadata | None) -> None:
            found[key] = answer
            if len(found) == len(keys):
                done.complete()

        def fail(error: KprodError) -> None:
            errors.append(own_copy(error))
            done.complete()

        questions = [CommittedQuestion(key, partial(take, key), fail) for key in keys]
        if not questions:
            return found
        self._parts.mailbox.post(partial(group.committed.ask, questions))
        try:
            self._parts.wait_done(done, self._until_ms(self._parts.api_limit(timeout)))
        finally:
            self._parts.mailbox.post(partial(group.committed.withdraw, questions))
        for error in errors:
            raise error
        if len(found) < len(keys):
            self._parts.check_open()
            missing = [key for key in keys if key not in found]
            raise self._parts.timed_out(f"committed offsets of {named(missing)}", timeout)
        return {key: found[key] for key in keys}

    def commit_before_loss(self, keys: Iterable[TopicPartition], limit_s: float) -> None:
        """Commit offsets before partitions are given up; failures are logged.

        Args:
            keys: Assigned partitions.
            limit_s: Seconds to wait at most.
        """
        last = self.last_commit(keys, limit_s)
        if last is not None:
            self.has_ended(last, None)

    def last_commit(self, keys: Iterable[TopicPartition], limit_s: float) -> "AwaitedCommit | None":
        """Send a commit before partitions are given up.

        Args:
            keys: Assigned partitions.
            limit_s: Seconds until it fails.

        Returns:
            The commit, for `has_ended`; None if there is nothing to commit.
        """
        group, assigned = self._parts.group, self._parts.assignment.partitions
        if group is None or not self._parts.config.enable_auto_commit:
            return None
        lost = {key: assigned[key] for key in keys if key in assigned}
        offsets = places_of(lost) if self._parts.config.auto_offset_store else stored_of(lost)
        if not offsets:
            return None
        # A topic that is unknown was deleted, most likely: no rebalance waits for it.
        return self._send(group, offsets, self._until_ms(limit_s), waits_for_topics=False)

    def has_ended(self, last: "AwaitedCommit", until_ms: int | None) -> bool:
        """Wait for the end of a last commit; a failure is logged.

        Args:
            last: The commit.
            until_ms: Deadline of the wait, monotonic; None for that of the commit.

        Returns:
            False if the deadline has passed, and the commit's has not.
        """
        try:
            return self._wait(last, until_ms)
        except KprodError as error:
            _logger.warning("the commit before partitions are given up failed: %s", error)
        return True

    def commit_and_wait(
        self, group: GroupParts, offsets: Mapping[TopicPartition, OffsetAndMetadata], until_ms: int
    ) -> None:
        """Commit offsets, and wait for the result.

        Args:
            group: The consumer's.
            offsets: At least one.
            until_ms: Deadline, monotonic.

        Raises:
            KprodError: They were not committed.
        """
        self._wait(self._send(group, offsets, until_ms), None)

    def _send(
        self,
        group: GroupParts,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        until_ms: int,
        *,
        waits_for_topics: bool = True,
    ) -> "AwaitedCommit":
        done = BatchResult("", 0)
        errors: list[KprodError] = []

        def end(error: KprodError | None) -> None:
            if error is None:
                self.note_committed(offsets)
            errors.extend([] if error is None else [error])
            done.complete()

        commit = Commit(offsets, until_ms, end, waits_for_topics=waits_for_topics)
        self._post(group, commit)
        return AwaitedCommit(group, commit, done, errors)

    def _wait(self, sent: "AwaitedCommit", until_ms: int | None) -> bool:
        """Wait for the end of a commit; False if only the deadline of the wait has passed."""
        last_ms = sent.commit.until_ms  # the loop ends it there, unless a request is in flight
        wait_ms = last_ms if until_ms is None else min(until_ms, last_ms)
        if not self._parts.wait_done(sent.done, wait_ms):
            self._parts.check_open()
            if self._parts.clock.now_ms() < last_ms:
                return False
            raise sent.group.commits.overdue(sent.commit)
        for error in sent.errors:
            raise error
        return True

    def run_callbacks(self) -> None:
        """Run the callbacks of the asynchronous commits that have ended, but of no later ones.

        A callback that calls it, since it commits, runs none: they would be in each other for ever.
        """
        caller = current_ident()
        if caller in self._callers:
            return
        self._callers.add(caller)
        try:
            for _ in range(len(self._due)):
                try:
                    callback = self._due.popleft()
                except IndexError:
                    return  # another thread has run it
                callback()
        finally:
            self._callers.discard(caller)

    def _post(self, group: GroupParts, commit: Commit) -> None:
        self._parts.mailbox.post(partial(group.commits.post, commit))

    def _group(self) -> GroupParts:
        self._parts.check_open()
        if self._parts.group is None:
            raise ConfigError(
                "group_id is not set: offsets are committed for a consumer group; make the consumer"
                " with group_id"
            )
        return self._parts.group

    def _until_ms(self, limit_s: float) -> int:
        until_ms = self._parts.until_ms(limit_s)
        assert until_ms is not None  # noqa: S101 - there is a limit
        return until_ms

    def _offsets(
        self, given: Mapping[Any, object] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: the application's, or the positions."""
        assigned = self._parts.assignment
        if given is None and not self._parts.config.auto_offset_store:
            return stored_of(assigned.partitions)
        if given is None:
            found = {}
            for key, partition in assigned.partitions.items():
                place = self._parts.hand_over.place_of(partition)
                if place is not None:
                    found[key] = OffsetAndMetadata(place.offset, leader_epoch=place.epoch)
            return found
        offsets = offsets_of(given)
        if assigned.shared is not None:
            self._check_assigned([key for key in offsets if key not in assigned.partitions])
        return offsets

    def _check_assigned(self, lost: list[TopicPartition], done: str = "committed") -> None:
        """Raise if there are partitions that the consumer has not."""
        if not lost:
            return
        pronoun = "them" if len(lost) > 1 else "it"
        if self._parts.assignment.shared is None:
            raise CommitFailed(f"{named(lost)} cannot be {done} before assign() has {pronoun}")
        error = CommitFailed(
            f"{named(lost)} cannot be {done}, since the group has assigned {pronoun} to this member"
            " no more: the new owner reads on from the offsets committed before. Commit in"
            " on_revoked, or let poll commit (enable_auto_commit)"
        )
        error.partitions = tuple((key.topic, key.partition) for key in lost)
        raise error


def _report(
    callback: OnCommit | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    error: KprodError | None,
) -> None:
    if callback is None:
        if error is not None:
            _logger.warning("an asynchronous commit failed: %s", error)
        return
    try:
        callback(offsets, error)
    except Exception:
        _logger.exception("%r failed; reading continues", callback)
