# The reader of record batches, format V2: a buffer of batches, and one batch.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kprod._core.record.record_iterator cimport BufferHold, RecordIterator


cdef class BatchReader:
    cdef BufferHold _hold
    cdef object _view
    cdef object _decompress
    cdef bint _check_crc
    cdef int32_t _batch_bytes_max
    cdef readonly Py_ssize_t position
    cdef RecordBatch _next_batch(self)


# Like the constructor, for compiled callers.
cdef BatchReader open_batches(object buffer, bint check_crc, object decompress)


cdef class RecordBatch:
    cdef BufferHold _hold
    cdef object _decompress
    cdef const uint8_t* _start
    cdef object _reader_view
    cdef readonly Py_ssize_t position
    cdef readonly int64_t base_offset
    cdef readonly int32_t length
    cdef readonly int32_t partition_leader_epoch
    cdef readonly int8_t magic
    cdef readonly uint32_t crc
    cdef readonly int16_t attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count
    cdef int _load(self) except -1
    cdef bint _is_crc_valid(self) except -1
    cdef int _check_count(self, Py_ssize_t records_bytes) except -1
    cdef RecordIterator _iterate(self, bint as_tuples)
