# The types of parts.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.clock cimport SystemClock
from kprod._core.reader_claim cimport ReaderClaim
from kprod.consumer.activity cimport Activity
from kprod.consumer.assignment cimport Assignment
from kprod.consumer.direct_read cimport DirectRead
from kprod.consumer.fetch_buffer cimport FetchBuffer
from kprod.consumer.hand_over cimport HandOver
from kprod.consumer.mailbox cimport Mailbox


cdef class ConsumerParts:
    cdef public object config
    cdef public SystemClock clock
    cdef public str client_id
    cdef public Mailbox mailbox
    cdef public Assignment assignment
    cdef public Activity activity
    cdef public object group
    cdef public object reader
    cdef public object steps_until_ms
    cdef public object join_group
    cdef public object match_group
    cdef public object leave_group
    cdef public object interceptors
    cdef public DirectRead direct_read
    cdef public object closed_error
    cdef public ReaderClaim alone
    cdef public object state_log
    cdef public object metadata
    cdef public object client
    cdef public FetchBuffer buffer
    cdef public object lookup
    cdef public object plan
    cdef public object fetcher
    cdef public object topics
    cdef public HandOver hand_over
    cdef public object loop
    cdef public object thread

    cpdef check_open(self)

    @cython.locals(seconds=double)
    cpdef object until_ms(self, object timeout)
    cpdef wait(self, object is_ready, object until_ms)


cpdef check_timeout(object timeout)
