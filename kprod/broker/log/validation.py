"""What a broker checks of a batch before it appends it, in Kafka's order.

Rules, and the error for each.
    Exactly one batch, of magic 2, whole: INVALID_RECORD; bytes that are no batch: CORRUPT_MESSAGE.
    zstd below Produce version 7: UNSUPPORTED_COMPRESSION_TYPE, as for a codec that does not exist.
    Base offset 0: INVALID_RECORD. Size within `max.message.bytes`: MESSAGE_TOO_LARGE.
    The checksum: CORRUPT_MESSAGE.
    A record count above 0 that agrees with the last offset delta; no marker; a producer id with an
    epoch and a sequence: INVALID_RECORD. No broker's timestamps and none too far ahead:
    INVALID_TIMESTAMP.
    Every record is well formed and has the next offset: INVALID_RECORD.

Thread-safety: functions of their arguments.
Source: Kafka ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from kprod._core.batch_reader import RecordBatch
from kprod._core.layout import BatchLayout, Magic
from kprod.broker.config import TopicConfig
from kprod.broker.refusal import Refused
from kprod.errors import CorruptRecord
from kprod.model import Codec, TimestampType
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches

_FIRST_VERSION_WITH_ZSTD = 7
_LAST_CODEC = max(Codec)


def validated_batch(
    records: memoryview | None, config: TopicConfig, *, api_version: int, timestamp_ms: int
) -> RecordBatch:
    """Check what a client wants appended to one partition.

    Args:
        records: As in the request; the bytes are not changed.
        config: The topic's.
        api_version: Of the Produce request, 3 or more.
        timestamp_ms: Wall clock.

    Returns:
        The one batch; its view is all of `records`.

    Raises:
        Refused: With the error code of the first rule that is broken.
    """
    batch = _only_batch(records, api_version)
    _check_envelope(batch, config)
    if not batch.has_valid_crc():
        message = f"the batch's checksum is {batch.crc:#010x}, its bytes have another"
        raise Refused(ErrorCode.CORRUPT_MESSAGE, message)
    _check_header(batch)
    _check_timestamps(batch, config, timestamp_ms)
    try:
        batch.check_records(contiguous=True)
    except CorruptRecord as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from error
    return batch


def _only_batch(records: memoryview | None, api_version: int) -> RecordBatch:
    if not records:
        message = "there is no record batch"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    magic = records[BatchLayout.MAGIC_OFFSET] if len(records) > BatchLayout.MAGIC_OFFSET else None
    if magic is not None and magic < Magic.MAGIC_V2:
        message = f"Produce version {api_version} takes magic 2 only, not {magic}"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    reader = read_batches(records, check_crc=False)
    try:
        batch = next(reader, None)
    except CorruptRecord as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if batch is None or reader.remaining_bytes:
        whole = 0 if batch is None else batch.size_bytes
        message = f"{len(records)} bytes are not one whole record batch ({whole} bytes are)"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if batch.codec > _LAST_CODEC:
        message = f"there is no codec {batch.codec}"
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    if batch.codec == Codec.ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD:
        message = f"zstd needs Produce version {_FIRST_VERSION_WITH_ZSTD}, not {api_version}"
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    return batch


def _check_envelope(batch: RecordBatch, config: TopicConfig) -> None:
    if batch.base_offset != 0:
        message = f"the batch's base offset is {batch.base_offset}, a client's must be 0"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if batch.size_bytes > config.max_message_bytes:
        message = (
            f"the batch has {batch.size_bytes} bytes; {config.max_message_bytes} are allowed "
            "(max.message.bytes)"
        )
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, message)


def _check_header(batch: RecordBatch) -> None:
    if batch.record_count <= 0 or batch.last_offset_delta != batch.record_count - 1:
        message = (
            f"{batch.record_count} records do not go with a last offset delta of "
            f"{batch.last_offset_delta}"
        )
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if batch.is_control:
        message = "a client may not write markers"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if batch.producer_id >= 0 and (batch.producer_epoch < 0 or batch.base_sequence < 0):
        message = (
            f"producer id {batch.producer_id} with epoch {batch.producer_epoch} and sequence "
            f"{batch.base_sequence}"
        )
        raise Refused(ErrorCode.INVALID_RECORD, message)


def _check_timestamps(batch: RecordBatch, config: TopicConfig, timestamp_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime":
        return
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        message = "the timestamp type is LogAppendTime, which is the broker's to set"
        raise Refused(ErrorCode.INVALID_TIMESTAMP, message)
    ahead_ms = batch.max_timestamp_ms - timestamp_ms
    if ahead_ms > config.message_timestamp_after_max_ms:
        message = (
            f"timestamp {batch.max_timestamp_ms} is {ahead_ms} ms ahead; "
            f"{config.message_timestamp_after_max_ms} are allowed (message.timestamp.after.max.ms)"
        )
        raise Refused(ErrorCode.INVALID_TIMESTAMP, message)
