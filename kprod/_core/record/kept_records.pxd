# The records of a batch that compaction keeps.

from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.record.offset_map cimport OffsetMap, Slot
from kprod._core.record.record_iterator cimport BufferHold, RecordIterator


# One record; `rest` follows its timestamp.
cdef struct Span:
    const uint8_t* start
    const uint8_t* rest
    const uint8_t* end
    int64_t timestamp_ms


# A record before it is judged.
cdef struct Judged:
    Span span
    Slot hashed
    bint has_key
    bint has_value


cdef class KeptRecords:
    cdef Span* _spans
    cdef BufferHold _hold
    cdef readonly int32_t record_count
    cdef readonly int32_t invalid_count
    cdef readonly int64_t max_timestamp_ms
    cdef readonly bint has_tombstone
    cdef int _read(self, RecordIterator records, OffsetMap offsets, bint drops_tombstones) except -1
    cdef int _judge(
        self, const Judged* judged, int count, OffsetMap offsets, bint drops_tombstones) except -1
    cdef int _find_rest(self, Span* span) except -1
