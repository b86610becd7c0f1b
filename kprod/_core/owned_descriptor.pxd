# cython: language_level=3


cdef class OwnedDescriptor:
    cdef int _descriptor
