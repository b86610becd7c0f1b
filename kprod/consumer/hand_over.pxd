# The types of hand_over.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.consumer.fetch_buffer cimport FetchBuffer
from kprod.consumer.open_block cimport OpenBlock
from kprod.consumer.parked_blocks cimport ParkedBlocks
from kprod.consumer.position cimport AssignedPartition


cdef class HandOver:
    cdef public FetchBuffer _buffer
    cdef public object _terms
    cdef public object _assignment
    cdef public object _on_freed
    cdef public object _ready
    cdef public ParkedBlocks _parked
    cdef public list _touched
    cdef public int64_t _taken_count
    cdef public int64_t _settled_count
    cdef public int64_t _interrupt_count
    cdef public int64_t _taken_at
    cdef public object chunk
    cdef public bint is_complete

    @cython.locals(records=list, taken=list, block=OpenBlock)
    cpdef list take(self, int64_t count, int64_t blocks_max=*)
    cpdef remove_exhausted(self, OpenBlock block)

    @cython.locals(block=OpenBlock)
    cpdef settle(self)
    cpdef drop_parked(self, object restart)

    cpdef OpenBlock _current(self, int64_t taken_count)
    cpdef _take_arrived(self)

    @cython.locals(block=OpenBlock)
    cpdef _drop(self, object entry)

    @cython.locals(partition=AssignedPartition)
    cpdef bint _is_current(self, object entry) except -1
