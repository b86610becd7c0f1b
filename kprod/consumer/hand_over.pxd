# The types of hand_over.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.consumer.assignment cimport Assignment
from kprod.consumer.fetch_buffer cimport FetchBuffer
from kprod.consumer.iterator_chunk cimport IteratorChunk
from kprod.consumer.open_block cimport DecodingTerms, OpenBlock
from kprod.consumer.parked_blocks cimport ParkedBlocks, is_of_newest_start, partition_of
from kprod.consumer.position cimport AssignedPartition

cdef int64_t _PARKED_RATIO


cdef class HandOver:
    cdef public FetchBuffer _buffer
    cdef public DecodingTerms _terms
    cdef public Assignment _assignment
    cdef public object _on_freed
    cdef public list _ready
    cdef public ParkedBlocks _parked
    cdef public list _touched
    cdef public int64_t _taken_count
    cdef public int64_t _settled_count
    cdef public int64_t _interrupt_count
    cdef public int64_t _taken_at
    cdef public IteratorChunk chunk
    cdef public bint is_complete

    cpdef bint has_work(self) except -1

    @cython.locals(records=list, taken=list, block=OpenBlock)
    cpdef list take(self, Py_ssize_t count, bint from_one=*)
    cpdef remove_exhausted(self, OpenBlock block)

    @cython.locals(block=OpenBlock)
    cpdef settle(self)
    cpdef drop_parked(self, object restart)
    cpdef OpenBlock _current(self, bint may_run)
    cpdef _pass_over(self, OpenBlock bad=*)
    cpdef _take_arrived(self)

    @cython.locals(block=OpenBlock, partition=AssignedPartition)
    cpdef _drop(self, object entry)

    cpdef bint _is_current(self, object entry) except -1
