# The types of fetcher.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.consumer.fetch_buffer cimport FetchBuffer, FetchedBlock, ResponseMemory
from kprod._core.record.batch_ends cimport BatchEnd, last_batch
from kprod._core.wire.fetch_frames cimport LoneFetch
from kprod.consumer.fetch_listener cimport FetchCounts
from kprod.consumer.fetch_plan cimport FetchPlan
from kprod.consumer.fetch_request cimport FetchRequest, FetchTerms
from kprod.consumer.fetch_session cimport FetchSession, SessionRequest, Wanted, wanted_in
from kprod.consumer.position cimport AssignedPartition
from kprod.consumer.read_replica cimport ReadReplicas
from kprod.network.client cimport NetworkClient
from kprod.network.client_request cimport Outcome


cdef class Fetcher:
    cdef public FetchTerms _terms
    cdef public NetworkClient _client
    cdef public Metadata _metadata
    cdef public FetchPlan _plan
    cdef public FetchBuffer _buffer
    cdef public ReadReplicas _replicas
    cdef public object _listener
    cdef public object _on_fetched
    cdef public dict asked_bytes
    cdef public FetchCounts counts
    cdef public bint has_left
    cdef public list without_batch
    cdef public int64_t lone_node_id

    @cython.locals(wait_ms=int64_t, delay_ms=int64_t, session=FetchSession)
    cpdef int64_t send(self, int64_t now_ms) except -1

    @cython.locals(session=FetchSession)
    cpdef bint send_to(self, object node_id, int64_t now_ms) except -1

    @cython.locals(
        terms=FetchTerms, buffer=FetchBuffer, asked_bytes=int64_t, free_bytes=int64_t,
        bytes_max=int64_t, most_bytes=int64_t, part=SessionRequest,
        request=FetchRequest
    )
    cpdef _send(self, object node, FetchSession session, int64_t shares, int64_t now_ms)

    @cython.locals(session=FetchSession, asked=dict, names=dict, hints=list)
    cpdef _complete(self, FetchRequest request, Outcome outcome)
    cpdef _fail_all(self, Outcome outcome, FetchSession session, dict asked, object error)

    @cython.locals(
        answer=LoneFetch, by_id=cython.bint, wanted=Wanted, partition=AssignedPartition,
        memory=ResponseMemory
    )
    cpdef _take_lone(self, FetchSession session, dict asked, Outcome outcome)

    @cython.locals(
        memory=ResponseMemory, blocks=dict, wanted=Wanted, block=FetchedBlock
    )
    cpdef _take(self, Outcome outcome, dict asked, dict names)

    @cython.locals(block=FetchedBlock, added_bytes=int64_t)
    cpdef _add(self, list blocks, ResponseMemory memory, int64_t now_ms)

    @cython.locals(partition=AssignedPartition, now_ms=int64_t)
    cpdef _look_at(self, Wanted wanted, dict answer, Outcome outcome, ResponseMemory memory)

    @cython.locals(
        partition=AssignedPartition, end=BatchEnd, ends_the_log=cython.bint, offset=int64_t,
        next_offset=int64_t, next_epoch=int64_t
    )
    cpdef _block(self, Wanted wanted, object records, tuple aborted, ResponseMemory memory)

    @cython.locals(partition=AssignedPartition)
    cpdef _take_cut_off(self, Wanted wanted, int64_t now_ms)
    cpdef _take_code(self, AssignedPartition partition, int64_t code, Outcome outcome)
    cpdef _fail(self, AssignedPartition partition, object error, int64_t now_ms)
