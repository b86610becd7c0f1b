# The records of one batch of format V2, and the buffer that holds their bytes.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kprod._core.record.record_fields cimport Fault, RecordFields


# A buffer that stays exported while any object points into it.
cdef class BufferHold:
    cdef Py_buffer _buffer
    cdef const uint8_t* start
    cdef Py_ssize_t size


# Fields of the batch's header, already checked; `position` is the batch's start in its buffer.
cdef struct BatchFields:
    Py_ssize_t position
    int64_t base_offset
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int32_t last_offset_delta
    int32_t record_count
    int16_t attributes


cdef class RecordIterator:
    cdef BatchFields _batch
    cdef BufferHold _hold
    cdef const uint8_t* _at
    cdef const uint8_t* _limit
    cdef int32_t _index
    cdef bint _as_tuples
    # Headers of the last record that had any; their keys are reused.
    cdef tuple _headers
    cdef int _read(self, RecordFields* fields) except -1
    cdef int _raise(self, Fault fault) except -1
    cdef int _check_end(self) except -1
    cdef int64_t _timestamp_ms(self, const RecordFields* fields) noexcept
    cdef object _make_tuple(self, const RecordFields* fields)
    cdef object _make_record(self, const RecordFields* fields)
    cdef object check(self, bint contiguous)


# Headers of the registered type from a record's header section without its count; `recent` are
# headers whose keys are reused where they are equal.
cdef tuple headers_in_section(
    const uint8_t* start, const uint8_t* end, int32_t count, tuple recent)
