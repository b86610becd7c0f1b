"""A DeleteRecords request that waits until every replica has the new start offset.

Behaviour, for each partition of the request.
    A. This broker leads it no more: NOT_LEADER_OR_FOLLOWER; its directory has failed:
       KAFKA_STORAGE_ERROR.
    B. The low watermark has reached the offset: done, with the low watermark.
    C. Neither within the request's timeout: REQUEST_TIMED_OUT. The log begins later all the same.
The response is sent when every partition is settled.

Thread-safety: the broker's thread.
Source: Kafka DelayedDeleteRecords.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kprod.broker.deleted_records import low_watermark
from kprod.broker.replication import Partition
from kprod.protocol.error_table import ErrorCode
from kprod.timer.purgatory import DelayedOperation


class WaitingDelete(NamedTuple):
    """One partition's part of the request.

    Attributes:
        partition: The partition.
        node_id: The broker that got the request.
        offset: The low watermark to wait for.
        answer: The partition's part of the response; updated when it is settled.
    """

    partition: Partition
    node_id: int
    offset: int
    answer: dict[str, Any]


class DelayedDelete(DelayedOperation):
    """Waits until every replica has the new start offset."""

    __slots__ = ("_finish", "_waiting")

    def __init__(
        self, waiting: Sequence[WaitingDelete], *, timeout_ms: int, finish: Callable[[], object]
    ) -> None:
        """Start to wait for replicas.

        Args:
            waiting: The partitions; may be empty.
            timeout_ms: Milliseconds after which the remaining partitions fail.
            finish: Sends the response.
        """
        super().__init__(max(timeout_ms, 0))
        self._waiting = list(waiting)
        self._finish = finish

    def try_complete(self) -> bool:
        """Settle the partitions that are ready; complete when none is left."""
        self._waiting = [it for it in self._waiting if not _settled(it)]
        return not self._waiting and self.force_complete()

    def on_complete(self) -> None:
        """Fail the remaining partitions, case C, and respond."""
        for it in self._waiting:
            it.answer["error_code"] = int(ErrorCode.REQUEST_TIMED_OUT)
        self._finish()


def _settled(it: WaitingDelete) -> bool:
    code = it.partition.why_not_led_by(it.node_id)
    if code:
        it.answer["error_code"] = int(code)  # case A
        return True
    reached = low_watermark(it.partition)
    if reached < it.offset:
        return False
    it.answer["low_watermark"] = reached  # case B
    return True
