# cython: language_level=3


cdef class OwnedDescriptor:
    cdef int _descriptor
    cdef bint _is_owned
