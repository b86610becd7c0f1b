from libc.stdint cimport int32_t, int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.send.partition_appender cimport TopicRoutes
from kprod._core.arrow.arrow_rows cimport ArrowRows


cdef enum:
    # Rows that are routed at a time.
    BLOCK_ROWS = 8192
    # Slot of rows without a partition; it has no batch, and means the sticky partition's slot.
    STICKY_SLOT = 0


cdef class BlockPlan:
    # Slot of each row of a block, or the reason why it has none.
    cdef int32_t* routes
    # Slots for which bytes are planned, in the order of the rows.
    cdef Py_ssize_t* touched
    cdef Py_ssize_t touched_count
    cdef SendPath _path
    cdef TopicRoutes _topic_routes
    cdef ArrowRows _rows
    cdef int64_t* _planned
    cdef Py_ssize_t _slot_count
    cdef int64_t _partition_count
    cdef int32_t* _turns
    cdef Py_ssize_t _turn_count
    cdef int64_t _turn
    cdef bint _is_plain_array
    cdef int begin(self, Py_ssize_t slot_count, Py_ssize_t partition_count) except -1
    cdef int keep_turn(self) except -1
    cdef int64_t planned_bytes(self, Py_ssize_t slot) noexcept
    cdef int64_t route(self, int64_t first, int64_t end) noexcept nogil
    cdef int _grow(self, Py_ssize_t wanted) except -1
    cdef int _take_turns(self) except -1
    cdef int64_t _route_plain(self, int64_t first, int64_t end) noexcept nogil
    cdef void _plan(self, int32_t slot, int64_t size) noexcept nogil
    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil
