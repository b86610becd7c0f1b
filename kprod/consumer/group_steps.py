"""The steps of a rebalance in the application's thread: give up partitions, take over new ones.

They run at the beginning of a poll or of an iteration's next record, so the records before are
done. No lock is held while the application's listener runs; it may commit, seek, pause and
close. An exception of the listener leaves that poll after the step is complete, so the member
continues. A step that waits for a commit longer than its poll may last continues in the next poll.

Thread-safety: `prepare`, `lead`, `assign`, `fail` and `works` on the I/O thread, steps on the
polling thread.
Source: Kafka ConsumerCoordinator.onJoinPrepare, onJoinComplete (clients 4.3.1); KIP-415, KIP-429.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from kprod.consumer.commit_calls import AwaitedCommit, CommitCalls
from kprod.consumer.group.leading import assignments_or_error
from kprod.consumer.mailbox import StepUnfinished
from kprod.consumer.parts import ConsumerParts
from kprod.consumer.position import Start, group_start
from kprod.consumer.selection import EARLIEST, Selection
from kprod.consumer.topic_pattern import TopicPattern
from kprod.consumer.topic_watch import Whole
from kprod.errors import KprodError
from kprod.guarded_log import guarded_logger
from kprod.interfaces import GroupMember, PartitionAssignor
from kprod.model import TopicPartition

_logger = guarded_logger(__name__)


def _nothing() -> None:
    """Do nothing when the member has left."""


class GroupSteps:
    """Implements `Application` for one consumer."""

    def __init__(
        self,
        parts: ConsumerParts,
        selection: Selection,
        committing: CommitCalls,
        face: Callable[[], object],
    ) -> None:
        """Start without a listener.

        Args:
            parts: The consumer's parts.
            selection: Changes the assignment.
            committing: Commits before partitions are given up.
            face: Returns the public object, for the listener.
        """
        self._parts = parts
        self._selection = selection
        self._committing = committing
        self._face = face
        self._listener: object = None
        self._first_counts: dict[str, int] = {}
        self._is_member = False  # whether the membership has topics, though none may match
        self._leave_count = 0  # of the polling thread
        self._left_count = 0  # of the I/O thread: lower while a leave was not processed

    # Of the I/O thread: see `Application`.

    def owned(self) -> Sequence[TopicPartition]:
        """Return the assigned partitions."""
        return tuple(self._parts.assignment.partitions)

    def prepare(self, ticket: int, *, is_lost: bool) -> None:
        """Hand the step that gives up partitions."""
        self._hand(ticket, partial(self._prepare, ticket, is_lost))

    def lead(
        self,
        ticket: int,
        assignor: PartitionAssignor,
        members: Sequence[GroupMember],
        topics: Mapping[str, Sequence[frozenset[str]]],
    ) -> None:
        """Hand the step that runs the application's assignor."""
        self._hand(ticket, partial(self._lead, ticket, assignor, members, topics))

    def assign(self, ticket: int, partitions: Sequence[TopicPartition]) -> None:
        """Hand the step that takes over an assignment."""
        self._hand(ticket, partial(self._assign, ticket, partitions))

    def idle_ms(self, now_ms: int) -> int:
        """Return for how long the application has asked for nothing."""
        return self._parts.activity.idle_ms(self._parts.hand_over, now_ms)

    def fail(self, error: KprodError) -> None:
        """Make `poll` raise an error."""
        self._parts.topics.note(Whole.GROUP, error)

    def note_count(self, topic: str, count: int) -> None:
        """Note how many partitions a topic of the group has, as soon as that is known.

        Args:
            topic: A subscribed topic, with or without a share of this member's.
            count: Its number of partitions.
        """
        self._first_counts.setdefault(topic, count)

    def works(self) -> None:
        """Forget the error."""
        self._parts.topics.forget_problem(Whole.GROUP)

    def _hand(self, ticket: int, run: "Callable[[_Step], object]") -> None:
        is_current = partial(self._is_current, ticket, self._left_count)
        self._parts.mailbox.hand(_Step(run, is_current))
        self._parts.hand_over.interrupt()

    # Of the polling thread.

    def join(
        self,
        topics: tuple[str, ...] | None,
        listener: object,
        pattern: TopicPattern | None = None,
    ) -> None:
        """Become a member of the group; the caller holds the claim to read.

        Args:
            topics: The topics to read; None to wait for `match`.
            listener: The application's, or None.
            pattern: The pattern that determines the topics; None if they are named.
        """
        assignment = self._parts.assignment
        self._parts.activity.count += 1
        self._listener = listener
        if assignment.shared is None:
            self._is_member = False
            self._selection.replace({}, shared=topics or (), pattern=pattern)
        else:
            assignment.share(assignment.shared, pattern)  # no rebalance
            self._parts.client.wakeup()
        if topics is not None:
            self._subscribe(topics)

    def match(self, topics: tuple[str, ...], added: frozenset[str]) -> None:
        """Read the topics that the cluster has for the subscribed pattern.

        Args:
            topics: The topics that match; may be empty.
            added: Those of them that the cluster did not have before.
        """
        self._first_counts.update(dict.fromkeys(sorted(added), 0))
        self._subscribe(topics)

    def _subscribe(self, topics: tuple[str, ...]) -> None:
        assignment, group = self._parts.assignment, self._parts.group
        assert group is not None  # noqa: S101 - the caller has checked
        if self._is_member and set(topics) == set(assignment.shared or ()):
            return  # no rebalance
        self._is_member = True
        assignment.share(topics, assignment.pattern)
        self._post(lambda now_ms: group.membership.subscribe(topics, now_ms))

    def unsubscribe(self) -> None:
        """Leave the group, because the application reads something else."""
        self._parts.hand_over.settle()
        tells = not self._parts.config.group_instance_id
        self.leave("the consumer unsubscribed from all topics", self._limit_s, tells=tells)

    def leave(
        self,
        reason: str,
        limit_s: float,
        *,
        tells: bool,
        on_left: Callable[[], object] = _nothing,
    ) -> None:
        """Give up all partitions and leave the group; the caller holds the claim to read.

        Args:
            reason: The reason, for the brokers' logs.
            limit_s: Seconds to wait for a commit at most.
            tells: Whether to tell the coordinator.
            on_left: Called on the I/O thread when the coordinator has answered.
        """
        group = self._parts.group
        if group is None or self._parts.assignment.shared is None:
            on_left()
            return
        keys = list(self._parts.assignment.partitions)
        self._committing.commit_before_loss(keys, limit_s)
        try:
            self._tell_revoked(keys, limit_s)
        finally:
            self._leave_count += 1
            self._selection.replace({})
            self._post(self._note_left)
            self._post(lambda now_ms: group.membership.leave(reason, now_ms, on_left, tells=tells))

    def _note_left(self, _now_ms: int) -> None:
        self._left_count += 1
        self._first_counts = {}

    def _is_current(self, ticket: int, left_count: int) -> bool:
        """Whether a step is the newest, and was handed after the application left the last time."""
        group = self._parts.group
        if group is None or left_count != self._leave_count:
            return False
        return group.membership.ticket == ticket

    def _prepare(self, ticket: int, is_lost: bool, step: "_Step") -> None:  # noqa: FBT001
        group = self._parts.group
        assert group is not None  # noqa: S101 - the step is the group's
        membership, owned = group.membership, list(self._parts.assignment.partitions)
        self._parts.hand_over.settle()
        if is_lost or not membership.offers.is_cooperative:
            gone = owned
        else:
            gone = [key for key in owned if key.topic not in membership.topics]
        own_bytes = {each.name: self._bytes_of(each) for each in membership.offers.own}
        try:
            self._give_up(gone, step, is_lost=is_lost)
        finally:
            if step.has_given_up:
                self._post(lambda now_ms: membership.prepared(ticket, now_ms, own_bytes))

    def _assign(self, ticket: int, keys: Sequence[TopicPartition], step: "_Step") -> None:
        gone = [key for key in self._parts.assignment.partitions if key not in keys]
        self._parts.hand_over.settle()
        try:
            self._give_up(gone, step, is_lost=False)
        except Exception:
            if step.has_given_up:  # else the step would end, and the member wait for it for ever
                self._complete(ticket, keys, step)
            raise
        self._complete(ticket, keys, step)

    def _complete(self, ticket: int, keys: Sequence[TopicPartition], step: "_Step") -> None:
        """Take over an assignment, tell the listener, and settle in the generation."""
        group = self._parts.group
        assert group is not None  # noqa: S101 - the step is the group's
        membership, before = group.membership, self._parts.assignment.partitions
        step.added += [key for key in keys if key not in before and key not in step.added]
        try:
            self._take_over(keys)
            step.has_taken_over = True
            if not step.is_told:
                step.is_told = True
                self._tell("on_assigned", step.added)
        finally:
            has_revoked = step.has_revoked
            if step.has_taken_over:
                self._post(lambda _now_ms: membership.assigned(ticket, has_revoked=has_revoked))

    def _lead(
        self,
        ticket: int,
        assignor: PartitionAssignor,
        members: Sequence[GroupMember],
        topics: Mapping[str, Sequence[frozenset[str]]],
        _step: "_Step",
    ) -> None:
        group = self._parts.group
        assert group is not None  # noqa: S101 - the step is the group's
        result = assignments_or_error(assignor, members, topics)
        self._post(lambda now_ms: group.membership.led(ticket, result, now_ms))

    def _take_over(self, keys: Sequence[TopicPartition]) -> None:
        before = self._parts.assignment.partitions
        starts = {key: before[key].start if key in before else self._start(key) for key in keys}
        assignment = self._parts.assignment
        self._selection.replace(starts, shared=assignment.shared, pattern=assignment.pattern)

    def _give_up(self, keys: Collection[TopicPartition], step: "_Step", *, is_lost: bool) -> None:
        """Commit, tell the listener, wait for its commits, and drop the partitions."""
        if not keys:
            step.has_given_up = True
            return
        if not is_lost:
            self._commit_last(keys, step)
        step.has_revoked = True
        if not step.is_revocation_told:
            step.is_revocation_told = True
            try:
                self._tell("on_lost" if is_lost else "on_revoked", list(keys))
            except BaseException as error:  # noqa: BLE001 - raised when partitions are given up
                step.error = error
            step.has_committed = self._parts.config.auto_offset_store  # else it may have stored
        if not is_lost and (step.error is None or isinstance(step.error, Exception)):
            self._commit_last(keys, step)
            self._wait_async(step)
        assignment = self._parts.assignment
        kept = {key: each.start for key, each in assignment.partitions.items() if key not in keys}
        self._selection.replace(kept, shared=assignment.shared, pattern=assignment.pattern)
        step.has_given_up = True
        if step.error is not None:
            raised, step.error = step.error, None
            raise raised

    def _commit_last(self, keys: Collection[TopicPartition], step: "_Step") -> None:
        """Commit positions before they are given up; raises if the read's time is over."""
        if not step.has_committed:
            step.has_committed = True
            step.last = self._committing.last_commit(keys, self._limit_s)
        if step.last is not None:
            if not self._committing.has_ended(step.last, self._parts.steps_until_ms):
                raise StepUnfinished
            step.last = None

    def _wait_async(self, step: "_Step") -> None:
        """Wait for the asynchronous commits; raises if the read's time is over."""
        now_ms = self._parts.clock.now_ms()
        if step.wait_until_ms is None:
            step.wait_until_ms = now_ms + round(self._limit_s * 1_000)
        read_until_ms = self._parts.steps_until_ms
        last_ms = step.wait_until_ms
        until_ms = last_ms if read_until_ms is None else min(last_ms, read_until_ms)
        if not self._committing.have_ended(until_ms) and self._parts.clock.now_ms() < last_ms:
            self._parts.check_open()
            raise StepUnfinished

    def _tell_revoked(self, keys: Sequence[TopicPartition], limit_s: float) -> None:
        """Tell the listener, and wait for its commits, also of offsets that it stores."""
        try:
            if keys:
                self._tell("on_revoked", keys)
        finally:
            if not self._parts.config.auto_offset_store:
                self._committing.commit_before_loss(keys, limit_s)
            self._committing.wait_async(limit_s)

    def _tell(self, method: str, keys: Sequence[TopicPartition]) -> None:
        call = getattr(self._listener, method, None)
        if call is None and method == "on_lost":
            call = getattr(self._listener, "on_revoked", None)
        if call is not None:
            call(self._face(), list(keys))

    def _start(self, key: TopicPartition) -> Start:
        """Return where to start a partition that was not assigned before."""
        policy = self._parts.config.auto_offset_reset
        first_count = self._first_counts.get(key.topic)
        is_added = first_count is not None and key.partition >= first_count
        if is_added and policy.name != "none":
            policy = EARLIEST  # all its records are newer than the subscription
        return group_start(policy)

    def _bytes_of(self, assignor: PartitionAssignor) -> bytes | None:
        group = self._parts.group
        assert group is not None  # noqa: S101 - the caller has checked
        try:
            found = assignor.assignor_bytes(*group.membership.offers.last)
            return None if found is None else bytes(found)
        except Exception:
            _logger.exception("%r failed in assignor_bytes; the member sends none", assignor)
            return None

    @property
    def _limit_s(self) -> float:
        config = self._parts.config
        return min(config.default_api_timeout_ms, config.max_poll_interval_ms) / 1_000

    def _post(self, call: Callable[[int], object]) -> None:
        self._parts.mailbox.post(lambda: call(self._parts.clock.now_ms()))


class _Step:
    """A step that may run again when a signal handler or a listener has raised in it."""

    __slots__ = (
        "_is_current",
        "_run",
        "added",
        "error",
        "has_committed",
        "has_given_up",
        "has_revoked",
        "has_taken_over",
        "is_revocation_told",
        "is_told",
        "last",
        "wait_until_ms",
    )

    def __init__(self, run: Callable[["_Step"], object], is_current: Callable[[], bool]) -> None:
        self._run = run
        self._is_current = is_current
        self.error: BaseException | None = None
        self.has_committed = False
        self.has_given_up = False
        self.has_revoked = False
        self.has_taken_over = False
        self.is_revocation_told = False
        self.is_told = False
        self.added: list[TopicPartition] = []
        self.last: AwaitedCommit | None = None
        self.wait_until_ms: int | None = None

    def __call__(self) -> None:
        if self._is_current():
            self._run(self)
