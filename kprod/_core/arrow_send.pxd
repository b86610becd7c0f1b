from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.append cimport PartitionHead
from kprod._core.arrow_abi cimport ArrowArray
from kprod._core.arrow_columns cimport (
    BytesColumn,
    ColumnPlan,
    HeadersColumn,
    NumberColumn,
    Window,
)
from kprod._core.arrow_source cimport ArrowSource
from kprod._core.batch cimport BatchBuilder, RecordFields
from kprod._core.bulk cimport BulkCall
from kprod._core.tally cimport BatchShare


# Why the compiled loop came back.
cdef enum Stop:
    ROWS_ENDED = 0
    ROW_REFUSED = 1
    NO_PRIVATE_BATCH = 2
    NEEDS_CHUNKS = 3
    IS_FULL = 4
    NO_MEMORY = 5


# What one partition has of the call's own: a batch that no queue knows yet.
cdef struct Slot:
    PyObject* builder
    PyObject* share
    # About what the rows ahead will need.
    int64_t planned_bytes


# The columns of one array.
cdef struct Columns:
    BytesColumn value
    BytesColumn key
    HeadersColumn headers
    NumberColumn partition
    NumberColumn timestamp
    const uint8_t* validity
    int64_t offset
    bint has_key
    bint has_headers
    bint has_partition
    bint has_timestamp


cdef class ArrowCall(BulkCall):
    cdef ArrowSource _source
    cdef ColumnPlan _value
    cdef ColumnPlan _key
    cdef ColumnPlan _headers
    cdef ColumnPlan _partition
    cdef ColumnPlan _timestamp
    cdef Columns _columns
    # Batches and shares by slot; slot 0 is the sticky partition's, partition p's is p + 1.
    cdef list _batches
    cdef list _own_shares
    cdef Slot* _slots
    cdef Py_ssize_t _slot_count
    # For each row of a block its slot, or why it has none.
    cdef int32_t* _routes
    cdef Py_ssize_t* _touched
    cdef Py_ssize_t _touched_count
    cdef int32_t* _turns
    cdef Py_ssize_t _turn_count
    cdef int64_t _turn
    cdef uint8_t* _section
    cdef int64_t _section_room_bytes
    cdef int64_t _headers_bytes_max
    # Of the path's rules and the clock, for the loops without the lock.
    cdef int64_t _record_bytes_max
    cdef int64_t _besides_bytes
    cdef int64_t _partition_count
    cdef int64_t _clock_ms
    cdef int64_t _multiplier
    cdef int64_t _divisor
    # The place in the call of the array's first row.
    cdef int64_t _first_call_index
    cdef int _take_plan(self, str role, ColumnPlan plan) except -1
    cdef int _bind(self) except -1
    cdef int _send_array(self, int64_t row_count) except -1
    cdef int64_t _send_block(self, int64_t first, int64_t row_count) except -1
    cdef int _look_around(self) except -1
    cdef int _grow_slots(self) except -1
    cdef int64_t _route(self, int64_t first, int64_t end) noexcept nogil
    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil
    cdef int _time_of(self, int64_t row, int64_t* time_ms) noexcept nogil
    cdef int64_t _headers_bytes(self, int64_t row) noexcept nogil
    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil
    cdef bint _read_row(self, int64_t row, RecordFields* record) noexcept nogil
    cdef bint _write_headers(self, int64_t row, RecordFields* record) noexcept nogil
    cdef int _prepare_block(self) except -1
    cdef int _open_slot(self, Py_ssize_t slot, list chunks) except -1
    cdef int _lengthen(self, Py_ssize_t slot) except -1
    cdef int _make_private_room(self, Py_ssize_t slot, int64_t row, Stop stop) except -1
    cdef bint _refuse_row(self, int64_t row, int64_t first) except -1
    cdef object _fault_of(self, int64_t row, int32_t fault)
    cdef int64_t _size_of(self, int64_t row) except -1
    cdef int _splice_all(self) except -1
    cdef int _splice(self, Py_ssize_t slot) except -1
    cdef tuple _row(self, int64_t row)


cdef object bytes_at(const BytesColumn* column, int64_t row)
cdef bint is_utf8(const uint8_t* at, int64_t size) noexcept nogil
