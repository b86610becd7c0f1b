# The types of assignment.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.consumer.position cimport AssignedPartition


cdef class Assignment:
    cdef public dict _assigned
    cdef public object partitions
    cdef public tuple topics
    cdef public tuple shared
    cdef public object pattern
    cdef public int64_t version

    cpdef bint has(self, AssignedPartition partition) except -1
