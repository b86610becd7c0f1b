# The types of parked_blocks.py, which is compiled as it stands.


cdef class ParkedBlocks:
    cdef public dict _entries

    cpdef bint is_empty(self) except -1
