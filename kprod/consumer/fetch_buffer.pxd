# The types of fetch_buffer.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.consumer.position cimport AssignedPartition

cdef int64_t _IN_USE_RATIO


cdef class ResponseMemory:
    cdef public int64_t size_bytes
    cdef public int64_t in_use_bytes
    cdef public list blocks
    cdef public Py_ssize_t left_count


cdef class FetchedBlock:
    cdef public AssignedPartition partition
    cdef public int64_t number
    cdef public int64_t offset
    cdef public object records
    cdef public object aborted
    cdef public ResponseMemory memory
    cdef public int64_t next_offset
    cdef public int64_t next_epoch
    cdef public bint is_freed


cdef class FetchedStep:
    cdef public AssignedPartition partition
    cdef public int64_t number
    cdef public object run


cdef class FetchBuffer:
    cdef public int64_t capacity_bytes
    cdef public int64_t held_bytes
    cdef public int64_t decoding_bytes
    cdef public object _arrived
    cdef public object _freed
    cdef public bint _has_news
    cdef public bint is_short
    cdef public object _notify

    @cython.locals(passed_count=Py_ssize_t, block=FetchedBlock)
    cpdef add(self, list blocks, ResponseMemory memory)
    cpdef add_own(self, FetchedBlock block)

    @cython.locals(partition=AssignedPartition)
    cpdef _pass(self, FetchedBlock block)

    @cython.locals(index=Py_ssize_t, block=FetchedBlock)
    cpdef _leave_out(self, list blocks, Py_ssize_t first_index, ResponseMemory memory)
    cpdef take_freed(self)
    cpdef int64_t free_bytes(self) except? -1
    cpdef bint has_arrived(self) except -1
    cpdef object first(self)
    cpdef remove_first(self)

    @cython.locals(memory=ResponseMemory, each=FetchedBlock)
    cpdef free(self, FetchedBlock block)


@cython.locals(memory=ResponseMemory, block=FetchedBlock)
cpdef FetchedBlock lone_block(
    AssignedPartition partition, int64_t number, int64_t offset, memoryview records,
    int64_t next_offset, int64_t next_epoch
)
