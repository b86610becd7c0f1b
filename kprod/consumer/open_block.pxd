# The types of open_block.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.consumer.fetch_buffer cimport FetchedBlock


cdef class OpenBlock:
    cdef public FetchedBlock fetched
    cdef public int64_t next_offset
    cdef public int64_t _start_offset
    cdef public int64_t epoch
    cdef public bint is_done
    cdef public object _terms
    cdef public object _block
    cdef public list _waiting
    cdef public list _ready
    cdef public dict _results

    cpdef list take(self, int64_t count)
    cpdef follow_decoder(self)
    cpdef forget_results(self)
    cpdef park(self)
    cpdef _note(self, list taken)
    cpdef object _decoder(self)
