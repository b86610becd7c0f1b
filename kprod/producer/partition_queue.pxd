# The types of partition_queue.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.send.partition_appender cimport PartitionAppender
from kprod.producer.batch cimport ProducerBatch


cdef class PartitionQueue(PartitionAppender):
    cdef public Py_ssize_t drain_index
    cdef public Py_ssize_t in_flight_count
    cdef public Py_ssize_t backoff_count
    cdef public Py_ssize_t backoff_round
    cdef public int64_t leader_id
    cdef public int64_t metadata_generation
    cdef public int64_t ring_node_id
    cdef public int64_t sent_to
    cdef public int64_t next_sequence
    cdef public bint may_pipeline
    cdef public bint must_rewind
    cdef public bint is_gone

    @cython.locals(batch=ProducerBatch)
    cpdef ProducerBatch sendable_batch(self)

    @cython.locals(batch=ProducerBatch)
    cpdef bint is_short_of_memory(self) except -1
    cpdef bint is_oldest(self, ProducerBatch batch) except -1
    cpdef bint is_gated(self, int64_t leader_id) except -1
    cpdef sent(self, ProducerBatch batch, int64_t leader_id)
    cpdef answered(self, ProducerBatch batch)
    cpdef rewind_later(self)
    cpdef remove(self, ProducerBatch batch)
