# The types of parked_blocks.py, which is compiled as it stands.

cimport cython

from kprod.consumer.open_block cimport OpenBlock
from kprod.consumer.position cimport AssignedPartition


@cython.locals(block=OpenBlock)
cpdef AssignedPartition partition_of(object entry)


@cython.locals(block=OpenBlock)
cpdef bint is_of_newest_start(object entry) except -1


cdef class ParkedBlocks:
    cdef public dict _entries

    cpdef bint is_empty(self) except -1
