# The types of queue_leaders.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.producer.partition_queue cimport PartitionQueue


cdef class QueueLeaders:
    cdef public Metadata _metadata
    cdef public int64_t _generation
    cdef public object _snapshot

    cpdef int64_t leader_id_of(self, PartitionQueue queue) except? -1
