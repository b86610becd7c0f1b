# The aborted transactions of one block.

from libc.stdint cimport int64_t

from kprod._core.record.batch_reader cimport RecordBatch


cdef class AbortedTransactions:
    # Pairs of first offset and producer id, ascending; those before the index have begun.
    cdef list _starts
    cdef Py_ssize_t _index
    # Producers whose transactional batches are skipped now.
    cdef set _producer_ids

    # Follow the transactions up to a batch's end; return whether it belongs to an aborted one.
    cdef bint covers(self, RecordBatch batch, int64_t last_offset, bint is_control) except -1
