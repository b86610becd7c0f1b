# The types of fetch_session.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int32_t, int64_t

from kprod.consumer.position cimport AssignedPartition

cdef int64_t _NO_SESSION
cdef int64_t _FIRST_EPOCH
cdef int64_t _CLOSING_EPOCH
cdef int64_t _EPOCH_MAX


cdef class Wanted:
    cdef public AssignedPartition partition
    cdef public int64_t number
    cdef public object topic_id
    cdef public int64_t leader_epoch
    cdef public int64_t offset
    cdef public int64_t last_epoch
    cdef public int64_t bytes_max

    @cython.locals(partition=AssignedPartition)
    cpdef bint is_awaited(self) except -1
    cpdef move(self, int64_t offset, int64_t last_epoch)
    cpdef bint is_sent_like(self, Wanted other) except -1


cdef class SessionRequest:
    cdef public int64_t session_id
    cdef public int64_t epoch
    cdef public object named
    cdef public list forgotten

    cpdef dict fields(self)


cdef class FetchSession:
    cdef public dict wanted
    cdef public dict asked
    cdef public dict names_by_id
    cdef public dict _counts_by_id
    cdef public int64_t _session_id
    cdef public int64_t epoch
    cdef public dict _changed
    cdef public dict _nameless

    cpdef bint is_unchanged(self, int64_t session_id) except -1

    @cython.locals(before=Wanted)
    cpdef want(self, Wanted wanted)
    cpdef bint drop(self, object key) except -1

    @cython.locals(named=dict, forgotten=list, wanted=Wanted)
    cpdef SessionRequest next_request(self)

    @cython.locals(named=dict, forgotten=list, wanted=Wanted, asked=Wanted)
    cpdef tuple _take_changes(self)
    cpdef _note_name(self, Wanted wanted)
    cpdef _forget_name(self, Wanted asked)
    cpdef note_response(self, int64_t session_id)


@cython.locals(by_topic=dict, wanted=Wanted, topic=dict)
cdef list _topics(object named)


cpdef bint _must_forget(Wanted asked, Wanted wanted) except -1


cpdef Wanted wanted_in(object asked, object topic, object partition)
