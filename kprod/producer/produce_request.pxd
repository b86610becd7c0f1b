# The types of produce_request.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.network.outgoing cimport OutgoingFrame
from kprod.network.client_request cimport ClientRequest, Outcome
from kprod.producer.delivery cimport Delivery
from kprod.protocol.produce_frame cimport TopicRecords


cdef class ProduceTerms:
    cdef public Delivery delivery
    cdef public object acks
    cdef public object timeout_ms
    cdef public bint expects_response
    cdef public tuple versions
    cdef public tuple versions_by_name
    cdef public bytes opening
    cdef public int opening_version


cdef class ProduceRequest(ClientRequest):
    cdef public list batches
    cdef public list topics
    cdef public ProduceTerms _terms
    cdef public dict names_by_id

    cpdef OutgoingFrame encode(self, int version, int64_t correlation_id, object client_id)
    cpdef object decode(self, int version, object frame)
    cpdef complete(self, Outcome outcome)
