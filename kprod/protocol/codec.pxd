# The types of codec.py, which is compiled as it stands.


cdef class MessageCodec:
    cdef readonly str name
    cdef readonly int version
    cdef readonly bint flexible
    cdef readonly object _plan
