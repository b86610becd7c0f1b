# cython: language_level=3


cdef class SendHooks:
    pass
