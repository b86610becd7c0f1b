"""A shard's partition of `__consumer_offsets`: one batch an operation, acknowledged by all.

Invariants.
    `done` is called once for each batch, with the code that the group's clients are to be told.
    A batch counts as written only while the shard that wrote it still leads.

Thread-safety: the broker's thread.
Source: Kafka CoordinatorRuntime and GroupCoordinatorService.handleOperationException (4.3.1).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.delayed.delayed_produce import DelayedProduce, WaitingAppend
from kprod.broker.group.context import CoordinatorContext
from kprod.broker.group.records import LogRecord
from kprod.broker.log.stored_header import HEADER_BYTES
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches
from kprod.record.writer import write_batch

NOT_IN_THE_LOG: Final = -1

Done = Callable[[int, int], object]
"""Gets an error code, and the offset of the batch's first record.

With an error the offset says whether a replay will find the batch: `NOT_IN_THE_LOG` if it will not.
"""

_ANSWERS: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error codes that clients get for the errors of an append."""


def told(code: int) -> int:
    """Return the error code that a group's client gets for an append's error."""
    return int(_ANSWERS.get(code, ErrorCode(code)))


class OffsetsLog:
    """Writes and replays one partition, as long as one broker leads it.

    Attributes:
        is_open: Whether it still does.
    """

    __slots__ = ("_context", "_epoch", "_node_id", "_partition", "is_open")

    def __init__(self, context: CoordinatorContext, partition: Partition) -> None:
        """Use the partition's current leader as the broker that writes."""
        self._context = context
        self._partition = partition
        self._node_id = partition.leader_id
        self._epoch = partition.leader_epoch
        self.is_open: bool = True

    @property
    def is_replicated(self) -> bool:
        """Whether every in-sync replica has the whole log."""
        return self._partition.high_watermark >= self._partition.log.log_end_offset

    @property
    def record_bytes_max(self) -> int:
        """Size limit of the records of one batch together; 0 or less if not even one fits."""
        return self._partition.config.max_message_bytes - HEADER_BYTES

    def batches(self) -> Iterator[RecordBatch]:
        """All batches from the log's start on."""
        return self._partition.log.batches()

    def append(self, records: Sequence[LogRecord], done: Done) -> bool:
        """Write records as one batch, and tell when every in-sync replica has it.

        Args:
            records: At least one.
            done: See `Done`; it may be called before this returns.

        Returns:
            Whether the batch is in the log, so that a replay will find it even if `done` should be
            told of an error.
        """
        try:
            base_offset, last_offset = self._appended(records)
        except Rejected as rejected:
            done(told(rejected.code), NOT_IN_THE_LOG)
            return False
        outcome: dict[str, Any] = {"error_code": int(ErrorCode.NONE)}
        operation = DelayedProduce(
            [WaitingAppend(self._partition, self._node_id, last_offset + 1, outcome)],
            timeout_ms=self._context.config.offsets_commit_timeout_ms,
            finish=lambda: self._finish(outcome["error_code"], base_offset, done),
        )
        self._context.waiting_produces.try_complete_or_watch(operation, [self._partition.name])
        return True

    def _finish(self, code: int, base_offset: int, done: Done) -> None:
        if code == ErrorCode.NONE and not self.is_open:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        done(told(code), base_offset)

    def _appended(self, records: Sequence[LogRecord]) -> tuple[int, int]:
        context, partition = self._context, self._partition
        if not self.is_open or (partition.leader_id, partition.leader_epoch) != (
            self._node_id,
            self._epoch,
        ):
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        timestamp_ms = context.clock.timestamp_ms()
        encoded = memoryview(
            bytearray(
                write_batch(
                    [
                        (index, timestamp_ms, key, value, ())
                        for index, (key, value) in enumerate(records)
                    ]
                )
            )
        )
        if len(encoded) > partition.config.max_message_bytes:
            raise Rejected(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(encoded)} bytes of group records; {partition.config.max_message_bytes} are"
                " allowed (message_max_bytes)",
            )
        if context.log_bytes + len(encoded) > context.log_bytes_max:
            raise Rejected(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the logs have {context.log_bytes} bytes; the limit is log_bytes_max",
            )
        size_before = partition.log.size_bytes
        batch = next(read_batches(encoded, check_crc=False))
        try:
            appended = partition.append(batch, encoded, timestamp_ms, acks=-1)
        except OSError as error:
            text = f"{partition.name} cannot be written: {error}"
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        context.log_bytes += partition.log.size_bytes - size_before
        return appended.base_offset, appended.last_offset
