# The types of partitioner.py, which is compiled as it stands.


cdef class StickyPartitioner:
    cdef public object _clock
    cdef public dict _held_since_ms
    cdef public object _metadata
    cdef public object _settings
    cdef public object _source
    cdef public dict _weights
