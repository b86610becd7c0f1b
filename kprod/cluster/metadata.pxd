# The types of metadata.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.awaited_version cimport AwaitedVersion
from kprod.cluster.refresh_schedule cimport QuestionSchedule

cdef int64_t _NEVER_MS


cdef class Metadata(AwaitedVersion):
    cdef public object snapshot
    cdef public str principal
    cdef public object _settings
    cdef public QuestionSchedule _schedule
    cdef public object connection_failures
    cdef public object _refreshes
    cdef public object _posted
    cdef public dict _topics
    cdef public set _unsettled
    cdef public dict _topic_errors
    cdef public bint _full_wanted
    cdef public object _question
    cdef public object _last_error

    cpdef bint is_in_use(self, str topic) except -1
    cpdef add_topic(self, str topic, int64_t now_ms)

    @cython.locals(due_at_ms=int64_t)
    cpdef int64_t update_due_in_ms(self, int64_t now_ms) except -1
    cpdef bint rebootstrap_is_due(self, int64_t now_ms) except -1
