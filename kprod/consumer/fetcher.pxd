# The types of fetcher.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.consumer.fetch_buffer cimport FetchBuffer, FetchedBlock, ResponseMemory
from kprod.consumer.fetch_session cimport FetchSession, Wanted
from kprod.consumer.position cimport AssignedPartition
from kprod.consumer.read_replica cimport ReadReplicas
from kprod.network.client cimport NetworkClient
from kprod.network.client_request cimport Outcome


cdef class Fetcher:
    cdef public object _settings
    cdef public NetworkClient _client
    cdef public Metadata _metadata
    cdef public FetchBuffer _buffer
    cdef public ReadReplicas _replicas
    cdef public object _backoff
    cdef public object _rng
    cdef public object _listener
    cdef public dict _sessions
    cdef public dict _node_of
    cdef public dict _asked_bytes
    cdef public dict _put_off
    cdef public int64_t _share_bytes
    cdef public object counts

    @cython.locals(may_fetch=cython.bint, session=FetchSession)
    cpdef consider(self, AssignedPartition partition, int64_t now_ms)
    cpdef drop(self, AssignedPartition partition)

    @cython.locals(session=FetchSession, wanted=Wanted)
    cpdef _leave(self, AssignedPartition partition)

    @cython.locals(wait_ms=int64_t, delay_ms=int64_t, session=FetchSession)
    cpdef int64_t send(self, int64_t now_ms) except -1

    @cython.locals(wait_ms=int64_t, partition=AssignedPartition)
    cpdef int64_t _take_put_off(self, int64_t now_ms) except -1

    @cython.locals(
        buffer=FetchBuffer, asked_bytes=int64_t, free_bytes=int64_t, bytes_max=int64_t, body=dict
    )
    cpdef _send(self, object node, FetchSession session, int64_t shares, int64_t now_ms)

    @cython.locals(names=dict, hints=list)
    cpdef _complete(self, FetchSession session, dict asked, Outcome outcome)
    cpdef _fail_all(self, Outcome outcome, FetchSession session, dict asked, object error)

    @cython.locals(
        memory=ResponseMemory, blocks=list, wanted=Wanted, partition=AssignedPartition,
        block=FetchedBlock
    )
    cpdef _take(self, Outcome outcome, dict asked, dict names)

    @cython.locals(partition=AssignedPartition, now_ms=int64_t)
    cpdef _look_at(self, Wanted wanted, dict answer, Outcome outcome, ResponseMemory memory)

    @cython.locals(partition=AssignedPartition)
    cpdef _block(self, Wanted wanted, dict answer, int64_t now_ms, ResponseMemory memory)
    cpdef _take_cut_off(self, AssignedPartition partition, int64_t now_ms)
    cpdef _take_code(self, AssignedPartition partition, int64_t code, Outcome outcome)
    cpdef _fail(self, AssignedPartition partition, object error, int64_t now_ms)
    cpdef _try_later(self, AssignedPartition partition, int64_t now_ms)
