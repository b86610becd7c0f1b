# The types of loop.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.consumer.position cimport AssignedPartition


cdef class ConsumerLoop:
    cdef public object _parts
    cdef public int64_t _assignment_version
    cdef public int64_t _metadata_version
    cdef public object _snapshot
    cdef public dict _read
    cdef public object _topics

    cpdef run_once(self, int64_t now_ms)
    cpdef take_start(self, AssignedPartition partition, int64_t now_ms)
    cpdef take_place(self, AssignedPartition partition, int64_t now_ms)
    cpdef consider(self, AssignedPartition partition, int64_t now_ms)
