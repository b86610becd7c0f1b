# The types of fetch_request.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.consumer.fetch_session cimport SessionRequest, Wanted
from kprod.network.client_request cimport ClientRequest
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
    cdef public SessionRequest _part
    cdef public int64_t _bytes_max
    cdef public int64_t _partition_count
    cdef public FetchTerms _terms

    cpdef OutgoingFrame encode(self, int version, int64_t correlation_id, object client_id)
    cpdef object decode(self, int version, object frame)
