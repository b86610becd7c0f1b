"""A produce request with acks=all that waits for its followers.

Behaviour, for each partition of the request.
    A. This broker leads it no more: NOT_LEADER_OR_FOLLOWER; its directory has failed:
       KAFKA_STORAGE_ERROR.
    B. Every in-sync replica has the batch: done; NOT_ENOUGH_REPLICAS_AFTER_APPEND if already fewer
       are in sync than `min.insync.replicas` asks for.
    C. Neither within the request's timeout: REQUEST_TIMED_OUT. The batch stays in the log.
The response is sent when every partition is settled.

Thread-safety: the broker's thread.
Source: Kafka DelayedProduce and Partition.checkEnoughReplicasReachOffset.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kprod.broker.replication import Partition
from kprod.protocol.error_table import ErrorCode
from kprod.timer.purgatory import DelayedOperation


class WaitingAppend(NamedTuple):
    """One partition's append.

    Attributes:
        partition: The partition.
        node_id: The broker that appended.
        required_offset: The high watermark to wait for.
        answer: The partition's part of the response; updated on failure.
    """

    partition: Partition
    node_id: int
    required_offset: int
    answer: dict[str, Any]


class DelayedProduce(DelayedOperation):
    """Waits until every append is replicated."""

    __slots__ = ("_finish", "_waiting")

    def __init__(
        self, waiting: Sequence[WaitingAppend], *, timeout_ms: int, finish: Callable[[], object]
    ) -> None:
        """Start to wait for replication.

        Args:
            waiting: The appends, at least one.
            timeout_ms: Milliseconds after which they fail.
            finish: Sends the response.
        """
        super().__init__(max(timeout_ms, 0))
        self._waiting = list(waiting)
        self._finish = finish

    def try_complete(self) -> bool:
        """Settle the appends that are ready; complete when none is left."""
        self._waiting = [it for it in self._waiting if not _settled(it)]
        return not self._waiting and self.force_complete()

    def on_complete(self) -> None:
        """Fail the remaining appends, case C, and respond."""
        for append in self._waiting:
            _fail(append, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()


def _settled(append: WaitingAppend) -> bool:
    partition = append.partition
    code = partition.why_not_led_by(append.node_id)
    if code:
        _fail(append, code)  # case A
        return True
    if partition.high_watermark < append.required_offset:
        return False
    if not partition.has_enough_in_sync:
        _fail(append, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)  # case B
    return True


def _fail(append: WaitingAppend, code: int) -> None:
    append.answer.update(
        error_code=int(code), base_offset=-1, log_append_time_ms=-1, log_start_offset=-1
    )
