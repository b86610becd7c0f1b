from libc.stdint cimport int32_t, int64_t

from kprod._core.arrow.arrow_batches cimport ArrowBatches, Slot
from kprod._core.arrow.arrow_plan cimport BlockPlan
from kprod._core.arrow.arrow_rows cimport ArrowRows
from kprod._core.send.bulk_send cimport BulkCall


# The reason why the compiled loop returned.
cdef enum Stop:
    ROWS_ENDED = 0
    ROW_REJECTED = 1
    NO_PRIVATE_BATCH = 2
    NEEDS_CHUNKS = 3
    IS_FULL = 4
    NO_MEMORY = 5


cdef class ArrowCall(BulkCall):
    cdef ArrowRows _rows
    cdef BlockPlan _plan
    cdef ArrowBatches _batches
    cdef int64_t _clock_ms
    # Index in the call of the array's first row.
    cdef int64_t _first_call_index
    cdef int _use(self, ArrowRows rows) except -1
    cdef bint _send_next(self) except -1
    cdef int _send_array(self, int64_t row_count) except -1
    cdef int64_t _send_block(self, int64_t first, int64_t row_count) except -1
    cdef int _look_around(self) except -1
    cdef Stop _encode_run(
        self, int64_t* row, int64_t end, int64_t first, Slot* slot
    ) noexcept nogil
    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil
    cdef int _prepare_block(self) except -1
    cdef int _prepare_rest(self, int64_t row, int64_t first, int64_t end) except -1
    cdef bint _open(self, Py_ssize_t slot) except -1
    cdef int _lengthen_all(self) except -1
    cdef bint _is_large(self, Py_ssize_t slot) noexcept
    cdef int64_t _short_bytes(self) noexcept
    cdef Py_ssize_t _resolved(self, Py_ssize_t slot) noexcept
    cdef int64_t _planned_bytes(self, Py_ssize_t slot) noexcept
    cdef bint _make_private_room(self, Py_ssize_t route, int64_t row, Stop stop) except -1
    cdef bint _reject_row(self, int64_t row, int64_t first) except -1
