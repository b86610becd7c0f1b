# The reader of message sets, the record formats V0 and V1.

from libc.stdint cimport int32_t, int64_t, uint8_t

from kprod._core.record.message_fields cimport Message

cdef class Source:
    # The bytes to read; the memoryview keeps them alive and in place.
    cdef object view
    cdef const uint8_t *start
    cdef Py_ssize_t size
    cdef bint check_crc
    # Returns 1 for a whole message, 0 if more bytes are needed; raises if it is not a message.
    cdef int parse(self, Py_ssize_t position, Message *message) except -1
    cdef int parse_fields(self, Message *message) except -1
    cdef bint is_intact(self, Message *message) except -1
    cdef int verify(self, Message *message) except -1
    cdef object content(self, Py_ssize_t start, int32_t size)

cdef class MessageSetReader:
    cdef Source _source
    cdef object _decompress
    cdef Py_ssize_t _position

cdef class WrappedRecords

cdef class MessageEntry:
    cdef Source _source
    cdef object _decompress
    cdef Message _message
    cdef WrappedRecords _open(self, bint as_entries)
    cdef Source _open_wrapper(self)

cdef class WrappedRecords:
    cdef Source _source
    cdef Message _wrapper
    cdef Py_ssize_t _position
    cdef int64_t _base_offset
    cdef bint _as_entries
    cdef readonly Py_ssize_t record_count
    cdef int64_t _check_all(self) except? -1
    cdef int _check_member(self, Message *message) except -1
