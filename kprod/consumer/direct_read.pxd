# The types of direct_read.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.clock cimport SystemClock
from kprod._core.collector cimport pause, resume
from kprod._core.turn_lock cimport TurnLock
from kprod._core.wire.fetch_frames cimport LoneFetch, read_lone_fetch
from kprod.consumer.fetch_buffer cimport FetchBuffer
from kprod.consumer.fetch_repeat cimport FetchRepeat
from kprod.consumer.fetch_request cimport FetchRequest
from kprod.consumer.fetcher cimport Fetcher
from kprod.consumer.mailbox cimport Mailbox
from kprod.network.client cimport NetworkClient
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest
from kprod.network.response_wait cimport ResponseWait
from kprod.network.sleep_hook cimport SleepHook

cdef int64_t _SLEEP_MIN_MS
cdef int64_t _RESPONSE_BYTES_MAX
cdef int _PIECES_MAX
cdef int64_t _REST_MS
cdef int64_t _SLICE_MS
cdef int _NOTHING
cdef int _INCOMPLETE
cdef int _TAKEN
cdef int _LEFT


cdef class DirectRead(SleepHook):
    cdef public NetworkClient _client
    cdef public Fetcher _fetcher
    cdef public FetchRepeat _repeat
    cdef public FetchBuffer _buffer
    cdef public Mailbox _mailbox
    cdef public SystemClock _clock
    cdef public int64_t _request_timeout_ms
    cdef public TurnLock _io_lock
    cdef public int64_t _sleeps_until_ms
    cdef public object _failure
    cdef public ResponseWait _response_wait
    cdef public bint _is_waiting

    cpdef before_sleep(self, int64_t until_ms)
    cpdef after_sleep(self)
    cpdef close(self)

    @cython.locals(progress=cython.int)
    cpdef bint wait(self, object is_ready, object until_ms) except -1

    cpdef bint _try_lock(self) except -1
    cpdef _unlock(self)

    @cython.locals(progress=cython.int)
    cpdef int _begin_wait(self) except -1

    @cython.locals(now_ms=int64_t, left_ms=int64_t, ends_ms=int64_t, progress=cython.int)
    cpdef int _wait_and_take(self, object is_ready, object until_ms) except -1
    cpdef int _try_take(self) except -1

    @cython.locals(connection=NodeConnection, in_flight=InFlightRequest)
    cpdef bint _find_request(self) except -1
    cpdef _end_wait(self)

    @cython.locals(
        response_wait=ResponseWait, client=NetworkClient, in_flight=InFlightRequest,
        answer=LoneFetch, now_ms=int64_t, is_sent=cython.bint, lasts=cython.bint,
        arrived_bytes=int64_t
    )
    cpdef int _take(self) except -1

    @cython.locals(connection=NodeConnection, in_flight=InFlightRequest)
    cpdef bint _is_usual(
        self, FetchRequest request, LoneFetch answer, int64_t now_ms
    ) except -1

    @cython.locals(connection=NodeConnection, in_flight=InFlightRequest)
    cpdef _send_again(
        self, FetchRequest request, object frame, LoneFetch answer, int64_t now_ms
    )
