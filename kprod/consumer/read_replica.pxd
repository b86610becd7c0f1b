# The types of read_replica.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata


cdef class ReadReplicas:
    cdef public Metadata _metadata
    cdef public int64_t _lasts_ms
    cdef public dict _preferred

    cpdef node_of(self, object key, int64_t now_ms)
    cpdef bint has_preferred(self) except -1
    cpdef bint forget(self, object key) except -1
