# The types of partitioner.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class Weights:
    cdef readonly list candidates
    cdef readonly list cumulated
    cdef readonly int64_t weighed_at_ms


cdef class StickyPartitioner:
    cdef public object _clock
    cdef public dict _held_since_ms
    cdef public object _metadata
    cdef public object _settings
    cdef public object _rng
    cdef public dict _weights

    cpdef note_held(self, object node_id, int64_t now_ms)
    cpdef note_taking(self, object node_id)
    cpdef forget_nodes_but(self, list node_ids)
