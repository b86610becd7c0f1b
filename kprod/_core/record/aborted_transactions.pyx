# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The aborted transactions of one block of records, followed batch by batch.

The broker names those in the block by producer and first offset. A producer is added to the aborted
ones before the batch that reaches its first offset, and removed by its abort marker; transactional
batches of aborted producers are skipped. The block contains no records of open transactions,
because the broker ends it at the last stable offset.

Thread-safety: one thread at a time.
Source: Kafka CompletedFetch (clients 4.3.1); KIP-98.
"""

cimport cython
from libc.stdint cimport int64_t

from kprod._core.endian cimport load_int16
from kprod._core.layout cimport TRANSACTIONAL_MASK
from kprod._core.record.batch_reader cimport RecordBatch
from kprod._core.record.record_fields cimport RecordFields
from kprod._core.record.record_iterator cimport RecordIterator
from kprod.errors import CorruptRecord

cdef enum:
    # Version and type, 16 bits each.
    CONTROL_KEY_BYTES_MIN = 4
    CONTROL_TYPE_OFFSET = 2
    CONTROL_TYPE_ABORT = 0


@cython.final
cdef class AbortedTransactions:
    """Tells which batches of a block belong to aborted transactions.

    Args:
        aborted: Pairs of producer id and first offset.
    """

    def __init__(self, aborted):
        self._starts = sorted(
            [(int(first_offset), int(producer_id)) for producer_id, first_offset in aborted])
        self._producer_ids = set()

    cdef bint covers(self, RecordBatch batch, int64_t last_offset, bint is_control) except -1:
        if batch.producer_id < 0:
            return False
        while self._index < len(self._starts) and self._starts[self._index][0] <= last_offset:
            self._producer_ids.add(self._starts[self._index][1])
            self._index += 1
        if is_control:
            if _is_abort_marker(batch):
                self._producer_ids.discard(batch.producer_id)
            return False
        return batch.attributes & TRANSACTIONAL_MASK and batch.producer_id in self._producer_ids


cdef bint _is_abort_marker(RecordBatch batch) except -1:
    """Read the first record of a control batch; compaction may have removed it."""
    cdef RecordFields fields
    cdef RecordIterator records
    if batch.record_count == 0:
        return False
    records = batch._iterate(False)
    records._read(&fields)
    if fields.key_length < CONTROL_KEY_BYTES_MIN:
        raise CorruptRecord(f"a control record's key has {fields.key_length} bytes")
    return load_int16(fields.key + CONTROL_TYPE_OFFSET) == CONTROL_TYPE_ABORT
