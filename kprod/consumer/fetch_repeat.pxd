# The types of fetch_repeat.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.record.batch_ends cimport BatchEnd, last_batch
from kprod._core.wire.fetch_frames cimport LoneFetch
from kprod.cluster.metadata cimport Metadata
from kprod.consumer.fetch_buffer cimport FetchBuffer, FetchedBlock, lone_block
from kprod.consumer.fetch_plan cimport FetchPlan
from kprod.consumer.fetch_request cimport FetchRequest
from kprod.consumer.fetch_session cimport FetchSession, Wanted
from kprod.consumer.fetcher cimport Fetcher
from kprod.consumer.position cimport AssignedPartition
from kprod.consumer.topic_watch cimport TopicWatch
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest
from kprod.network.node_state cimport NodeState
from kprod.network.outgoing cimport OutgoingFrame

cdef Py_ssize_t _SMALL_BYTES


cdef class FetchRepeat:
    cdef public Fetcher _fetcher
    cdef public Metadata _metadata
    cdef public FetchPlan _plan
    cdef public FetchBuffer _buffer
    cdef public TopicWatch _topics

    @cython.locals(wanted=Wanted, session=FetchSession)
    cpdef bint accepts(
        self, NodeConnection connection, InFlightRequest in_flight, FetchRequest request,
        LoneFetch answer, int64_t now_ms
    ) except -1

    @cython.locals(
        wanted=Wanted, session=FetchSession, fetcher=Fetcher,
        partition=AssignedPartition, end=BatchEnd, next_epoch=int64_t,
        next_offset=int64_t, block=FetchedBlock, number=int64_t, frame=bytes
    )
    cpdef run(
        self, NodeConnection connection, InFlightRequest in_flight, FetchRequest request,
        LoneFetch answer, int64_t now_ms
    )

    @cython.locals(partition=AssignedPartition, end=BatchEnd)
    cpdef bint _is_fetched_next(
        self, Wanted wanted, object records, int64_t now_ms
    ) except -1
    cpdef bint _has_nothing_else(self, int64_t node_id) except -1

    @cython.locals(frame=OutgoingFrame)
    cpdef bint _may_send(
        self, NodeConnection connection, InFlightRequest in_flight, int64_t now_ms
    ) except -1

    @cython.locals(asked_bytes=dict, others_bytes=int64_t, free_bytes=int64_t)
    cpdef bint _asks_for_as_much(
        self, FetchRequest request, int64_t added_bytes
    ) except -1
