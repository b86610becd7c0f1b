# The types of fetch_request.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.wire.fetch_frames cimport read_lone_fetch, repeated_fetch_frame
from kprod.consumer.fetch_session cimport FetchSession, SessionRequest, Wanted
from kprod.network.client_request cimport ClientRequest, Outcome
from kprod.network.outgoing cimport OutgoingFrame


cdef class FetchTerms:
    cdef public object settings
    cdef public bint reads_committed
    cdef public object timeout_ms
    cdef public int64_t bytes_max
    cdef public object _topic_id
    cdef public bytes _id_bytes
    cdef public bytes _opening
    cdef public int _opening_version
    cdef public bytes _closing

    cpdef bytes opening(self, int version, object client_id)

    @cython.locals(wanted=Wanted)
    cpdef bytes frame(
        self, SessionRequest part, int64_t bytes_max, int version, int64_t number,
        object client_id
    )

    cpdef bytes _encoded_id(self, object topic_id)


cdef class FetchRequest(ClientRequest):
    cdef public FetchSession session
    cdef public dict asked
    cdef public int64_t bytes_max
    cdef public Wanted repeated
    cdef public object topic
    cdef public int64_t partition
    cdef public SessionRequest _part
    cdef public FetchTerms terms
    cdef public bytes _frame
    cdef public Py_ssize_t _opening_bytes

    @cython.locals(wanted=Wanted)
    cpdef OutgoingFrame encode(self, int version, int64_t correlation_id, object client_id)
    cpdef bytes repeated_frame(
        self, int64_t number, int64_t session_epoch, int64_t offset, int64_t last_epoch
    )
    cpdef object decode(self, int version, object frame)
    cpdef complete(self, Outcome outcome)
