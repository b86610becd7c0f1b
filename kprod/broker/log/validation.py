"""What a broker checks of a batch before it appends it, in Kafka's order.

Rules, and the error for each.
    Exactly one batch, of magic 2: INVALID_RECORD; bytes that are no batch: CORRUPT_MESSAGE. What
    follows the batch and is the beginning of another is left away.
    zstd below Produce version 7: UNSUPPORTED_COMPRESSION_TYPE.
    Base offset 0: INVALID_RECORD. Size within `max.message.bytes`: MESSAGE_TOO_LARGE.
    The checksum: CORRUPT_MESSAGE. A codec that there is: UNKNOWN_SERVER_ERROR.
    A record count above 0 that agrees with the last offset delta; no marker; a producer id with an
    epoch and a sequence: INVALID_RECORD. No broker's timestamps; no record's timestamp too far
    ahead: INVALID_TIMESTAMP, with the records.
    Records that can be decompressed: UNKNOWN_SERVER_ERROR; each well formed, with the next offset:
    INVALID_RECORD.

Stricter than Kafka 4.3, since only a client that is wrong sends it. Kafka takes batches that claim
LogAppendTime, and corrects them; uncompressed records whose offsets are out of order; bytes behind
the last record of a compressed batch, and corrects a header's greatest timestamp.

Thread-safety: functions of their arguments.
Source: Kafka ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from kprod._core.batch_reader import RecordBatch
from kprod._core.layout import BatchLayout, Magic
from kprod.broker.config import TopicConfig
from kprod.broker.refusal import Refused, RefusedByLog
from kprod.compression import decompress
from kprod.errors import CorruptRecord
from kprod.model import Codec, TimestampType
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches
from kprod.wording import counted

_FIRST_VERSION_WITH_ZSTD = 7
_LAST_CODEC = max(Codec)
# What Kafka answers when reading a batch fails in a way that it did not expect.
_UNREADABLE = ErrorCode.UNKNOWN_SERVER_ERROR


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
        The one batch; its view is `records`, but for a cut-off batch behind it.

    Raises:
        Refused: With the error code of the first rule that is broken.
        RefusedByLog: The same, where the request as such was sound.
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
        code = ErrorCode.INVALID_RECORD if _can_decompress(batch) else _UNREADABLE
        raise RefusedByLog(code, str(error)) from error
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
        another = None if batch is None else next(reader, None)
    except CorruptRecord as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if batch is None or another is not None:
        whole = 0 if batch is None else batch.size_bytes
        message = f"{len(records)} bytes are not one record batch ({whole} bytes are)"
        raise Refused(ErrorCode.INVALID_RECORD, message)
    if batch.codec == Codec.ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD:
        message = f"zstd needs Produce version {_FIRST_VERSION_WITH_ZSTD}, not {api_version}"
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    return batch


def _check_envelope(batch: RecordBatch, config: TopicConfig) -> None:
    if batch.base_offset != 0:
        message = f"the batch's base offset is {batch.base_offset}, a client's must be 0"
        raise RefusedByLog(ErrorCode.INVALID_RECORD, message)
    if batch.size_bytes > config.max_message_bytes:
        message = (
            f"the batch has {batch.size_bytes} bytes; {config.max_message_bytes} are allowed "
            "(max.message.bytes)"
        )
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, message)


def _check_header(batch: RecordBatch) -> None:
    if batch.codec > _LAST_CODEC:
        message = f"there is no codec {batch.codec}"
        raise RefusedByLog(_UNREADABLE, message)
    if batch.record_count <= 0 or batch.last_offset_delta != batch.record_count - 1:
        message = (
            f"a record count of {batch.record_count} does not go with a last offset delta of "
            f"{batch.last_offset_delta}"
        )
        raise RefusedByLog(ErrorCode.INVALID_RECORD, message)
    if batch.is_control:
        message = "a client may not write markers"
        raise RefusedByLog(ErrorCode.INVALID_RECORD, message)
    if batch.producer_id >= 0 and (batch.producer_epoch < 0 or batch.base_sequence < 0):
        message = (
            f"producer id {batch.producer_id} with epoch {batch.producer_epoch} and sequence "
            f"{batch.base_sequence}"
        )
        raise RefusedByLog(ErrorCode.INVALID_RECORD, message)


def _check_timestamps(batch: RecordBatch, config: TopicConfig, timestamp_ms: int) -> None:
    if config.message_timestamp_type != "CreateTime":
        return
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        message = "the timestamp type is LogAppendTime, which is the broker's to set"
        raise RefusedByLog(ErrorCode.INVALID_TIMESTAMP, message)
    if batch.max_timestamp_ms - timestamp_ms > config.message_timestamp_after_max_ms:
        _check_each_timestamp(batch, config, timestamp_ms)


def _check_each_timestamp(batch: RecordBatch, config: TopicConfig, timestamp_ms: int) -> None:
    limit_ms = config.message_timestamp_after_max_ms
    try:
        ahead_ms = {index: record.timestamp_ms - timestamp_ms for index, record in enumerate(batch)}
    except CorruptRecord:
        return  # told by the check of the records
    texts = {
        index: f"the timestamp is {ms} ms ahead; {limit_ms} are allowed"
        for index, ms in ahead_ms.items()
        if ms > limit_ms
    }
    if texts:
        message = (
            f"{counted(len(texts), 'record is', 'records are')} stamped more than "
            f"{limit_ms} ms ahead "
            "(message.timestamp.after.max.ms)"
        )
        raise RefusedByLog(ErrorCode.INVALID_TIMESTAMP, message, texts)


def _can_decompress(batch: RecordBatch) -> bool:
    try:
        decompress(Codec(batch.codec), batch.records_view)
    except CorruptRecord:
        return False
    return True
