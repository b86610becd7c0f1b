# The types of metadata.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class Metadata:
    cdef public object snapshot
    cdef public object connection_errors
    cdef public object _settings
    cdef public object _source
    cdef public object _backoff
    cdef public object _room
    cdef public object _version
    cdef public object _refreshes
    cdef public dict _topics
    cdef public set _unsettled
    cdef public dict _topic_errors
    cdef public bint _full_wanted
    cdef public object _question
    cdef public int64_t _allowed_at_ms
    cdef public object _last_success_ms
    cdef public object _attempts_since_ms
    cdef public object _failures
    cdef public object _equivalent_answers
    cdef public bint _rebootstrap_asked
    cdef public object _last_error
    cdef public object _fatal_error
    cdef public bint _closed
    cdef public int64_t _due_at_ms
    cdef public int64_t _rebootstrap_at_ms

    cpdef bint has_noted(self, str topic, int64_t now_ms) except -1
    cpdef add_topic(self, str topic, int64_t now_ms)
    cpdef int64_t update_due_in_ms(self, int64_t now_ms) except -1
    cpdef bint rebootstrap_is_due(self, int64_t now_ms) except -1
