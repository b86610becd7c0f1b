# The types of fetch_plan.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.consumer.fetch_session cimport FetchSession, Wanted
from kprod.consumer.position cimport AssignedPartition
from kprod.consumer.read_replica cimport ReadReplicas


cdef class FetchPlan:
    cdef public Metadata _metadata
    cdef public ReadReplicas _replicas
    cdef public object _backoff
    cdef public object _rng
    cdef public dict sessions
    cdef public dict _node_of
    cdef public dict _put_off
    cdef public dict _full
    cdef public dict _full_counts
    cdef public int64_t _share_bytes

    @cython.locals(may_fetch=cython.bint, session=FetchSession)
    cpdef consider(self, AssignedPartition partition, int64_t now_ms)
    cpdef bint is_wanted_from(self, int64_t node_id, object key) except -1
    cpdef bint awaits_application(self, int64_t node_id) except -1
    cpdef bint uses_leaders(self) except -1
    cpdef drop(self, AssignedPartition partition)
    cpdef try_later(self, AssignedPartition partition, int64_t now_ms)

    @cython.locals(wait_ms=int64_t, partition=AssignedPartition)
    cpdef int64_t take_due(self, int64_t now_ms) except -1

    cpdef _note_full(self, AssignedPartition partition)
    cpdef _forget_full(self, AssignedPartition partition)

    @cython.locals(session=FetchSession, wanted=Wanted)
    cpdef _leave(self, AssignedPartition partition)
