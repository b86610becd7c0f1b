"""Ends a consumer's membership when it is closed: commit, give up partitions, leave the group.

A thread that can read gives up the partitions as in a rebalance; records that another thread has
polled count as not done. If another thread reads, or the close is made inside of a read, only what
the application has asked past is committed, and the listener is not called.

Thread-safety: any thread of the application.
Source: Kafka ConsumerCoordinator.close, AbstractCoordinator.maybeLeaveGroup (clients 4.3.1).
"""

from kprod._core.outcome.batch_result import BatchResult
from kprod.consumer.commit_calls import CommitCalls
from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.group_steps import GroupSteps
from kprod.consumer.hand_over import HandOver
from kprod.consumer.parts import ConsumerParts
from kprod.errors import ClosedError, ConcurrentPoll
from kprod.guarded_log import guarded_logger
from kprod.threads import current_ident

CLOSE_LIMIT_S = 30.0  # of commit and leave together, if the close itself has no limit
_LEAVE_LIMIT_S = 5.0  # of the leave alone; a coordinator that is there responds at once
_LEAVE_LEAST_S = 0.25  # of the leave, if commits and the listener have used up the limit
_CALLBACKS_LIMIT_S = 1.0  # the I/O thread ends the commits in its next turn

_REASON = "the consumer is being closed"

_logger = guarded_logger(__name__)


class GroupEnd:
    """The end of one consumer's membership."""

    def __init__(self, parts: ConsumerParts, steps: GroupSteps, committing: CommitCalls) -> None:
        """Keep the parts.

        Args:
            parts: The consumer's parts.
            steps: Gives up partitions.
            committing: Commits.
        """
        self._parts = parts
        self._steps = steps
        self._committing = committing
        self._tells = True

    def run(self, timeout: float | None, *, is_failing: bool, leave: bool | None = None) -> None:
        """End the membership of a consumer that is about to be closed; logs what fails.

        Args:
            timeout: Seconds; None for `CLOSE_LIMIT_S`. 0 commits nothing and leaves no group. If a
                listener takes longer, the leave has `_LEAVE_LEAST_S` more: the group would wait a
                whole session for the member otherwise.
            is_failing: Whether what the application has in hand is not done.
            leave: Whether the coordinator learns of the end; None: unless the member is static, so
                that it can come back.
        """
        self._tells = not self._parts.config.group_instance_id if leave is None else leave
        parts, group = self._parts, self._parts.group
        if group is None or timeout == 0:
            return
        limit_s = CLOSE_LIMIT_S if timeout is None else min(timeout, CLOSE_LIMIT_S)
        parts.mailbox.post(group.auto_commit.stop)  # they would be waited for
        try:
            self._end(group, limit_s, is_failing=is_failing)
        except BaseException:
            parts.mailbox.post(group.auto_commit.resume)  # the consumer is still open
            raise

    def _end(self, group: GroupParts, limit_s: float, *, is_failing: bool) -> None:
        parts = self._parts
        until_ms = parts.clock.now_ms() + round(limit_s * 1_000)
        left = BatchResult("", 0)
        try:
            with parts.alone:
                is_other = parts.reader not in {None, current_ident()}
                settle_at_end(parts.hand_over, is_failing=is_failing or is_other)
                self._give_up(group, limit_s, left)
        except ConcurrentPoll:
            self._committing.commit_before_loss(list(parts.assignment.partitions), limit_s)
            self._committing.wait_async(limit_s)
            self._leave(group, left)
        except Exception:
            _logger.exception("on_revoked failed in close; the consumer is closed")
        parts.wait_until(lambda: group.commits.is_idle, until_ms)
        now_ms = parts.clock.now_ms()
        if until_ms <= now_ms:
            until_ms = now_ms + round(_LEAVE_LEAST_S * 1_000)
        parts.wait_done(left, min(until_ms, now_ms + round(_LEAVE_LIMIT_S * 1_000)))
        parts.mailbox.post(lambda: group.commits.fail_all(ClosedError("the consumer is closed")))
        parts.wait_until(
            lambda: group.commits.is_idle, parts.clock.now_ms() + round(_CALLBACKS_LIMIT_S * 1_000)
        )
        self._committing.run_callbacks()

    def _give_up(self, group: GroupParts, limit_s: float, left: BatchResult) -> None:
        if self._parts.assignment.shared is not None:
            self._steps.leave(_REASON, limit_s, tells=self._tells, on_left=left.complete)
        else:
            self._committing.commit_before_loss(list(self._parts.assignment.partitions), limit_s)
            self._committing.wait_async(limit_s)
            self._leave(group, left)  # it may have unsubscribed a moment ago

    def _leave(self, group: GroupParts, left: BatchResult) -> None:
        now_ms = self._parts.clock.now_ms()
        self._parts.mailbox.post(
            lambda: group.membership.leave(_REASON, now_ms, left.complete, tells=self._tells)
        )


def settle_at_end(hand_over: HandOver, *, is_failing: bool) -> None:
    """Settle the newest hand-out for the last time; the caller holds the claim to read.

    Args:
        hand_over: The consumer's.
        is_failing: Whether the records in hand are not done: positions go back before them, so
            that no commit, not even the listener's, includes them.
    """
    if hand_over.chunk is not None:
        hand_over.end_chunk(hand_over.chunk)
    if is_failing:
        hand_over.is_complete = False
    hand_over.settle()
