# The types of open_block.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.record.consumer_record cimport PartitionStamp
from kprod._core.record.record_block cimport RecordBlock, open_record_block
from kprod.consumer.fetch_buffer cimport FetchedBlock
from kprod.consumer.position cimport AssignedPartition, Place, new_place

cdef int64_t _NO_EPOCH


cdef class DecodingTerms:
    cdef readonly bint reads_committed
    cdef readonly bint check_crcs
    cdef readonly bint as_views
    cdef readonly object deserializers
    cdef readonly bint is_deserializing


cdef class OpenBlock:
    cdef public FetchedBlock fetched
    cdef public AssignedPartition partition
    cdef public int64_t next_offset
    cdef public int64_t _start_offset
    cdef public int64_t epoch
    cdef public bint is_done
    cdef public DecodingTerms _terms
    cdef public RecordBlock _block
    cdef public list _waiting
    cdef public list _ready
    cdef public dict _results

    cpdef RecordBlock decoder(self)

    @cython.locals(fetched=FetchedBlock, terms=DecodingTerms, stamp=PartitionStamp)
    cpdef RecordBlock _new_decoder(self)
    cpdef bint is_exhausted(self) except -1
    cpdef Place place(self)

    @cython.locals(block=RecordBlock, taken=list)
    cpdef list take(self, Py_ssize_t count)

    @cython.locals(block=RecordBlock)
    cpdef follow_decoder(self)
    cpdef rewind(self, Place place)
    cpdef forget_results(self)
    cpdef park(self)

    cpdef _note(self, list taken)
