# The types of tls_transport.py, which is compiled as it stands.


cdef class TlsTransport:
    cdef public object _below
    cdef public object _peer
    cdef public object _incoming
    cdef public object _outgoing
    cdef public object _ssl
    cdef public object _session
    cdef public object _ciphertext
    cdef public Py_ssize_t _taken_bytes
    cdef public bytes _beginning
    cdef public bint _is_established
    cdef public bint _is_broken
    cdef public bytes _unread
    cdef public object _failure
    cdef public bytearray _first
    cdef public bint gathers
    cdef public bint reads_in_place
    cdef public bint peeks

    cpdef Py_ssize_t _encrypt(self, object piece) except -1
    cpdef Py_ssize_t _take_unread(self, bytearray buffer, Py_ssize_t bytes_max) except -1
    cpdef _decrypt_unread(self)
    cpdef bint _read_first(self) except -1
    cpdef bint _has_read_first(self) except -1
    cpdef bytes _read_rest(self, Py_ssize_t count_bytes)
    cpdef bint _push(self) except -1
