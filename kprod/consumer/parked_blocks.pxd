# The types of parked_blocks.py, which is compiled as it stands.


cdef class ParkedBlocks:
    cdef public dict _entries
