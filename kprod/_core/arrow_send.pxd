from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from kprod._core.arrow_rows cimport ArrowRows
from kprod._core.bulk cimport BulkCall


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


cdef class ArrowCall(BulkCall):
    cdef ArrowRows _rows
    # Batches and shares by slot; partition p's is p + 1. The sticky partition's, now:
    cdef Py_ssize_t _sticky_slot
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
    # Of the path's topic and clock, for the loops without the lock.
    cdef int64_t _partition_count
    cdef int64_t _clock_ms
    cdef bint _is_plain_array
    # The place in the call of the array's first row.
    cdef int64_t _first_call_index
    cdef int _send_array(self, int64_t row_count) except -1
    cdef int64_t _send_block(self, int64_t first, int64_t row_count) except -1
    cdef int _look_around(self) except -1
    cdef int _follow_topic(self) except -1
    cdef int _grow_slots(self) except -1
    cdef int64_t _route(self, int64_t first, int64_t end) noexcept nogil
    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil
    cdef int64_t _route_plain(self, int64_t first, int64_t end) noexcept nogil
    cdef void _plan(self, int32_t slot, int64_t size) noexcept nogil
    cdef Stop _encode_run(
        self, int64_t* row, int64_t end, int64_t first, Slot* slot
    ) noexcept nogil
    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil
    cdef int _prepare_block(self) except -1
    cdef int _open_slot(self, Py_ssize_t slot, list chunks) except -1
    cdef Py_ssize_t _resolved(self, Py_ssize_t slot) noexcept
    cdef int64_t _planned_bytes(self, Py_ssize_t slot) noexcept
    cdef bint _lengthen(self, Py_ssize_t slot, int64_t need_bytes) except -1
    cdef int _make_private_room(self, Py_ssize_t route, int64_t row, Stop stop) except -1
    cdef bint _refuse_row(self, int64_t row, int64_t first) except -1
    cdef int _splice_all(self) except -1
    cdef int _splice(self, Py_ssize_t slot) except -1
    cdef int _refuse_batch(self, Py_ssize_t slot) except -1
    cdef int _vacate(self, Py_ssize_t slot) except -1
