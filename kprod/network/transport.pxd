# The types of transport.py, which is compiled as it stands.

from kprod._core.socket_io.socket_calls cimport (
    peek_into as peek_once,
    read_into as read_once,
    write_pieces as write_once,
)


cdef class PlainTransport:
    cdef public object _socket
    cdef public int _descriptor
    cdef public bint gathers
    cdef public bint reads_in_place
    cdef public bint peeks
    cdef public bint has_unread

    cpdef object fileno(self)
    cpdef object write_pieces(self, list pieces)
    cpdef object read_into(self, bytearray buffer, Py_ssize_t bytes_max=*, Py_ssize_t start=*)
    cpdef object peek_into(self, bytearray buffer)
