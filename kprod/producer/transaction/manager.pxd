# The types of manager.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue


cdef class TransactionManager:
    cdef public object _bump_reason
    cdef public bint _is_idempotent
    cdef public object _state
    cdef public object _state_log
    cdef public object fatal_error
    cdef public int64_t producer_epoch
    cdef public int64_t producer_id

    cpdef bint wants_attention(self) except -1
    cpdef bint may_send(self, ProducerBatch batch) except -1

    @cython.locals(queue=PartitionQueue)
    cpdef assign(self, ProducerBatch batch)
