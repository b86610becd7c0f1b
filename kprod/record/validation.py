"""What a broker demands of the records in a Produce request, format V2.

The reader accepts whatever a log may hold: gaps after compaction, control batches, batches without
records. A producer may send none of these, and exactly one batch for each partition.

Three errors tell three answers: `CorruptRecord` bytes that are no records, `UnsupportedCodec` a
codec that the request's version cannot carry, and `RemoteProtocolError` itself sound records
that a producer must not send.

Thread-safety: pure functions.
Source: Kafka ProduceRequest.validateRecords and LogValidator.validateBatch (4.3.1).
"""

from kprod._core.batch_reader import RecordBatch
from kprod.compression import Buffer
from kprod.errors import CorruptRecord, RemoteProtocolError, UnsupportedCodec
from kprod.model import Codec
from kprod.record.reader import read_batches

# KIP-110: the first Produce version whose client may use zstd.
ZSTD_PRODUCE_VERSION_MIN = 7


def produced_batch(
    records: Buffer, *, api_version: int, batch_bytes_max: int = 2_147_483_647
) -> RecordBatch:
    """Check the records of one partition in a Produce request of version 3 or later.

    All records are walked, decompressed if need be.

    Args:
        records: The request's bytes for the partition.
        api_version: Of the request; 3 and up.
        batch_bytes_max: A larger batch is corrupt.

    Returns:
        The one batch.

    Raises:
        CorruptRecord: The bytes are not exactly one sound batch.
        UnsupportedCodec: zstd before version 7.
        RemoteProtocolError: The batch is sound, but a producer must not send it.
    """
    reader = read_batches(records, batch_bytes_max=batch_bytes_max)
    batch = next(reader, None)
    if batch is None:
        msg = f"{reader.remaining_bytes} bytes of records hold no whole batch"
        raise CorruptRecord(msg)
    if reader.remaining_bytes:
        msg = f"{reader.remaining_bytes} bytes follow the first batch; a partition may have one"
        raise RemoteProtocolError(msg)
    if batch.codec == Codec.ZSTD and api_version < ZSTD_PRODUCE_VERSION_MIN:
        msg = f"zstd in Produce version {api_version}; it needs {ZSTD_PRODUCE_VERSION_MIN} or later"
        raise UnsupportedCodec(msg)
    fault = _fault(batch)
    if fault is not None:
        msg = f"a producer must not send this batch: {fault}"
        raise RemoteProtocolError(msg)
    batch.check_records(contiguous=True)
    return batch


def _fault(batch: RecordBatch) -> str | None:
    """What a producer may not say in a header, or None."""
    if batch.is_control:
        return "it is a control batch"
    if batch.record_count == 0:
        return "it has no records"
    if batch.last_offset_delta != batch.record_count - 1:
        return f"{batch.record_count} records end at offset delta {batch.last_offset_delta}"
    if batch.producer_id < 0:
        return "it is transactional and has no producer id" if batch.is_transactional else None
    if batch.producer_epoch < 0 or batch.base_sequence < 0:
        return (
            f"producer id {batch.producer_id} with epoch {batch.producer_epoch} "
            f"and base sequence {batch.base_sequence}"
        )
    return None
