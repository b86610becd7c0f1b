"""Validates a batch before the broker appends it, with Kafka's checks in Kafka's order.

Rules, and the error for each.
    Exactly one batch, of magic 2: INVALID_RECORD; bytes that are not a batch: CORRUPT_MESSAGE. A
    second batch that is cut off is ignored.
    A whole batch whose checksum is right and whose numbers are impossible (a count, a last offset
    delta): INVALID_RECORD, which clients do not retry.
    A codec that a later version of Produce introduced (zstd, 7): UNSUPPORTED_COMPRESSION_TYPE.
    Base offset 0: INVALID_RECORD.
    Size within `max.message.bytes`: MESSAGE_TOO_LARGE.
    The checksum: CORRUPT_MESSAGE.
    A known codec: UNKNOWN_SERVER_ERROR.
    A record count above 0 that agrees with the last offset delta; no marker; a producer id with an
    epoch and a sequence: INVALID_RECORD.
    No timestamps of type LogAppendTime: INVALID_TIMESTAMP.
    Records that can be decompressed: UNKNOWN_SERVER_ERROR; each well formed, with the next offset:
    INVALID_RECORD.
    A key in each record, if the topic is compacted: INVALID_RECORD.
    No timestamp too far ahead or too long ago, whatever the header says: INVALID_TIMESTAMP. The
    last two name the records.

Stricter than Kafka 4.3, since only a faulty client sends it. Kafka accepts and corrects batches
that claim LogAppendTime; it accepts uncompressed records whose offsets are out of order, bytes
after the last record of a compressed batch, records of length 0 in it, and header keys that are not
UTF-8. Kafka corrects a header's largest timestamp, which is stored here as it was sent.

Thread-safety: pure functions.
Source: Kafka ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

import itertools
import struct

from crc32c import crc32c

from kprod._core.layout import BatchLayout, Magic
from kprod._core.record.batch_reader import RecordBatch
from kprod.broker.rejection import Rejected, RejectedByLog
from kprod.broker.topic_config import TopicConfig
from kprod.compression import decompress
from kprod.errors import CorruptRecord
from kprod.model import CODECS, Codec, Record, TimestampType
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches

_FOREVER_MS = 2**63 - 1
_NO_TIMESTAMP = -1
_LAST_CODEC = max(Codec)
# A batch of a megabyte has some 100,000 records, and the response could name each of them.
_RECORDS_NAMED_MAX = 1_000
_INT32, _UINT32, _INT64 = struct.Struct(">i"), struct.Struct(">I"), struct.Struct(">q")
# Kafka's error code when reading a batch fails unexpectedly.
_UNREADABLE = ErrorCode.UNKNOWN_SERVER_ERROR


def validate_batch(
    records: memoryview | None, config: TopicConfig, *, api_version: int, timestamp_ms: int
) -> RecordBatch:
    """Validate the records of a Produce request for one partition.

    Args:
        records: The records field of the request; not modified.
        config: The topic's settings.
        api_version: Version of the Produce request, 3 or more.
        timestamp_ms: Wall clock time.

    Returns:
        The batch; its view is `records` without a cut-off second batch.

    Raises:
        Rejected: A rule is broken; has the error code of the first one.
        RejectedByLog: A rule is broken in a well-formed request; has the error code, too.
    """
    batch = _only_batch(records, api_version)
    _check_envelope(batch, config)
    if not batch.has_valid_crc():
        raise Rejected(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch's checksum is {batch.crc:#010x}, its bytes have another",
        )
    _check_header(batch)
    has_own_times = config.message_timestamp_type == "CreateTime"
    if has_own_times and batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        raise RejectedByLog(
            ErrorCode.INVALID_TIMESTAMP,
            "the timestamp type is LogAppendTime, which is the broker's to set",
        )
    try:
        latest_ms = batch.check_records(contiguous=True)
    except CorruptRecord as error:
        code = ErrorCode.INVALID_RECORD if _can_decompress(batch) else _UNREADABLE
        raise RejectedByLog(code, str(error)) from error
    is_late = latest_ms - timestamp_ms > config.message_timestamp_after_max_ms
    looks_back = config.message_timestamp_before_max_ms < _FOREVER_MS
    if config.compacts or (has_own_times and (is_late or looks_back)):
        _check_each(batch, config, timestamp_ms if has_own_times else None)
    return batch


def _only_batch(records: memoryview | None, api_version: int) -> RecordBatch:
    if not records:
        raise Rejected(ErrorCode.INVALID_RECORD, "there is no record batch")
    reader = read_batches(records, check_crc=False)
    batch = another = None
    try:
        batch = next(reader, None)
        if batch is not None and batch.size_bytes < len(records):
            another = next(reader, None)
    except CorruptRecord as error:
        if batch is None:
            _check_magic(records, api_version)
        rest = records if batch is None else records[batch.size_bytes :]
        if not _is_whole(rest):
            code = _UNREADABLE if _size_overflows(rest) else ErrorCode.CORRUPT_MESSAGE
            raise Rejected(code, str(error)) from error
        if batch is None:
            raise _senseless(rest, error) from error
        raise Rejected(
            ErrorCode.INVALID_RECORD, f"{len(records)} bytes are more than one record batch"
        ) from error
    if batch is None or another is not None:
        whole = 0 if batch is None else batch.size_bytes
        raise Rejected(
            ErrorCode.INVALID_RECORD,
            f"{len(records)} bytes are not one record batch ({whole} bytes are)",
        )
    codec = CODECS.get(batch.codec)
    if codec is not None and api_version < codec.first_produce_version:
        needed = codec.first_produce_version
        raise Rejected(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{codec.name} needs Produce version {needed}, not {api_version}",
        )
    return batch


def _check_magic(records: memoryview, api_version: int) -> None:
    magic = records[BatchLayout.MAGIC_OFFSET] if len(records) > BatchLayout.MAGIC_OFFSET else None
    if magic is not None and magic < Magic.MAGIC_V2:
        raise Rejected(
            ErrorCode.INVALID_RECORD,
            f"Produce version {api_version} takes magic 2 only, not {magic}",
        )


def _is_whole(records: memoryview) -> bool:
    """Whether the bytes begin with a batch of magic 2 with a plausible length."""
    if len(records) < BatchLayout.BATCH_OVERHEAD_BYTES:
        return False
    (length,) = _INT32.unpack_from(records, BatchLayout.BATCH_LENGTH_OFFSET)
    size = BatchLayout.LOG_OVERHEAD_BYTES + int(length)
    is_sound = BatchLayout.BATCH_OVERHEAD_BYTES <= size <= len(records)
    return is_sound and records[BatchLayout.MAGIC_OFFSET] == Magic.MAGIC_V2


def _size_overflows(records: memoryview) -> bool:
    """Whether the batch with its header would exceed Java's largest int."""
    if len(records) < BatchLayout.LOG_OVERHEAD_BYTES:
        return False
    (length,) = _INT32.unpack_from(records, BatchLayout.BATCH_LENGTH_OFFSET)
    return bool(length > 2**31 - 1 - BatchLayout.LOG_OVERHEAD_BYTES)


def _senseless(records: memoryview, error: CorruptRecord) -> Rejected:
    """Choose the error for a whole batch whose header is unreadable, in Kafka's order."""
    (base_offset,) = _INT64.unpack_from(records, BatchLayout.BASE_OFFSET_OFFSET)
    (length,) = _INT32.unpack_from(records, BatchLayout.BATCH_LENGTH_OFFSET)
    (crc,) = _UINT32.unpack_from(records, BatchLayout.CRC_OFFSET)
    batch = records[: BatchLayout.LOG_OVERHEAD_BYTES + length]
    if base_offset == 0 and crc32c(batch[BatchLayout.ATTRIBUTES_OFFSET :]) != crc:
        return Rejected(ErrorCode.CORRUPT_MESSAGE, str(error))
    return RejectedByLog(ErrorCode.INVALID_RECORD, str(error))


def _check_envelope(batch: RecordBatch, config: TopicConfig) -> None:
    if batch.base_offset != 0:
        raise RejectedByLog(
            ErrorCode.INVALID_RECORD,
            f"the batch's base offset is {batch.base_offset}, a client's must be 0",
        )
    if batch.size_bytes > config.max_message_bytes:
        raise Rejected(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {batch.size_bytes} bytes; {config.max_message_bytes} are allowed "
            "(max.message.bytes)",
        )


def _check_header(batch: RecordBatch) -> None:
    if batch.codec > _LAST_CODEC:
        raise RejectedByLog(_UNREADABLE, f"there is no codec {batch.codec}")
    if batch.record_count <= 0 or batch.last_offset_delta != batch.record_count - 1:
        raise RejectedByLog(
            ErrorCode.INVALID_RECORD,
            f"a record count of {batch.record_count} does not go with a last offset delta of "
            f"{batch.last_offset_delta}",
        )
    if batch.is_control:
        raise RejectedByLog(ErrorCode.INVALID_RECORD, "a client may not write markers")
    if batch.producer_id >= 0 and (batch.producer_epoch < 0 or batch.base_sequence < 0):
        raise RejectedByLog(
            ErrorCode.INVALID_RECORD,
            f"producer id {batch.producer_id} with epoch {batch.producer_epoch} and sequence "
            f"{batch.base_sequence}",
        )


def _check_each(batch: RecordBatch, config: TopicConfig, now_ms: int | None) -> None:
    """Check each record's key and timestamp; timestamps only if a time is given."""
    faults = (
        (index, fault)
        for index, record in enumerate(batch)
        if (fault := _fault_of(record, config, now_ms)) is not None
    )
    found = list(itertools.islice(faults, _RECORDS_NAMED_MAX))
    if not found:
        return
    # As in Kafka, one wrong timestamp makes INVALID_TIMESTAMP the code of the whole batch.
    is_of_time = any(code == ErrorCode.INVALID_TIMESTAMP for _, (code, _) in found)
    texts = {index: text for index, (_, text) in found}
    raise RejectedByLog(
        ErrorCode.INVALID_TIMESTAMP if is_of_time else ErrorCode.INVALID_RECORD,
        f"record {found[0][0]} of the batch is rejected: {found[0][1][1]}",
        texts,
    )


def _fault_of(record: Record, config: TopicConfig, now_ms: int | None) -> tuple[int, str] | None:
    if record.key is None and config.compacts:
        return (
            ErrorCode.INVALID_RECORD,
            "the record has no key, and its topic is compacted (cleanup.policy)",
        )
    if now_ms is None or record.timestamp_ms == _NO_TIMESTAMP:
        return None
    ahead_ms = record.timestamp_ms - now_ms
    if ahead_ms > config.message_timestamp_after_max_ms:
        return ErrorCode.INVALID_TIMESTAMP, (
            f"the timestamp is {ahead_ms} ms ahead; {config.message_timestamp_after_max_ms} are "
            "allowed (message.timestamp.after.max.ms)"
        )
    if -ahead_ms > config.message_timestamp_before_max_ms:
        return ErrorCode.INVALID_TIMESTAMP, (
            f"the timestamp is {-ahead_ms} ms ago; {config.message_timestamp_before_max_ms} are "
            "allowed (message.timestamp.before.max.ms)"
        )
    return None


def _can_decompress(batch: RecordBatch) -> bool:
    try:
        decompress(Codec(batch.codec), batch.records_view)
    except CorruptRecord:
        return False
    return True
