# The types of refresh_schedule.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class QuestionSchedule:
    cdef public int64_t due_at_ms
    cdef public int64_t rebootstrap_at_ms
    cdef public object last_success_ms
    cdef public object _settings
    cdef public object _rng
    cdef public object _backoff
    cdef public int64_t _allowed_at_ms
    cdef public object _attempts_since_ms
    cdef public object _failures
    cdef public object _equivalent_responses
    cdef public bint _rebootstrap_asked
