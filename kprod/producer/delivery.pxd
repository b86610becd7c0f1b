# The types of delivery.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod.cluster.metadata cimport Metadata
from kprod.network.client_request cimport Outcome
from kprod.producer.accumulator cimport RecordAccumulator
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue
from kprod.producer.transaction.manager cimport TransactionManager


cdef class Delivery:
    cdef public RecordAccumulator _accumulator
    cdef public TransactionManager _transaction_manager
    cdef public Metadata _metadata
    cdef public object _recorder
    cdef public object _retries
    cdef public object expiry

    @cython.locals(batch=ProducerBatch, queue=PartitionQueue, answers=dict)
    cpdef complete(self, object batches, object topic_names, Outcome outcome)

    cpdef _conclude(self, ProducerBatch batch, dict answers, Outcome outcome)

    @cython.locals(code=int)
    cpdef _settle(self, ProducerBatch batch, object answer)
    cpdef _rejected(self, ProducerBatch batch, int code, object answer)
    cpdef _acknowledged(self, ProducerBatch batch, int64_t base_offset, int64_t log_append_time_ms)

    @cython.locals(queue=PartitionQueue)
    cpdef _succeed(self, ProducerBatch batch, int64_t base_offset, int64_t log_append_time_ms)

    @cython.locals(batch=ProducerBatch)
    cpdef _settle_next(self, PartitionQueue queue)

    @cython.locals(queue=PartitionQueue)
    cpdef _end_attempt(self, ProducerBatch batch)
    cpdef dict _read(self, object topic_names, Outcome outcome)
