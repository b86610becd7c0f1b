# The types of outgoing.py, which is compiled as it stands.


cdef class OutgoingFrame:
    cdef public list pieces
    cdef public Py_ssize_t size_bytes
    cdef public Py_ssize_t written_bytes
    cdef public Py_ssize_t _index
    cdef public Py_ssize_t _offset

    cpdef renew(self, bytes piece)
    cpdef advance(self, Py_ssize_t count_bytes)
