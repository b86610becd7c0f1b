# The types of produce_frame.py, which is compiled as it stands.

cimport cython


cdef class TopicRecords:
    cdef readonly str name
    cdef readonly object topic_id
    cdef readonly object partitions


cdef class ProduceFrame:
    cdef readonly int version
    cdef readonly object correlation_id
    cdef readonly object client_id
    cdef readonly object acks
    cdef readonly object timeout_ms
    cdef readonly object transactional_id
    cdef readonly object topics


cpdef list produce_request(ProduceFrame request)


@cython.locals(topic=TopicRecords, flexible=cython.bint, by_id=cython.bint, named=list)
cpdef list produce_rest(bytes opening, int version, object correlation_id, object topics)
