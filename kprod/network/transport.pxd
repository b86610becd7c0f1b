# The types of transport.py, which is compiled as it stands.


cdef class PlainTransport:
    cdef public object _socket
    cdef public bint gathers
    cdef public bint reads_in_place
    cdef public bint peeks
    cdef public bint has_unread
