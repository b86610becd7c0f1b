# The types of sender.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.clock cimport SystemClock
from kprod._core.timer.wheel cimport TimingWheel
from kprod.cluster.metadata cimport Metadata
from kprod.producer.accumulator cimport RecordAccumulator
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue
from kprod.producer.produce_request cimport ProduceTerms
from kprod.producer.transaction.manager cimport TransactionManager


cdef class Sender:
    cdef public RecordAccumulator _accumulator
    cdef public int _attributes
    cdef public object _calls
    cdef public object compressor
    cdef public object _client
    cdef public SystemClock _clock
    cdef public object _delivery
    cdef public TransactionManager _transaction_manager
    cdef public object _may_send
    cdef public Metadata _metadata
    cdef public SendPath _path
    cdef public object _producer_id_requests
    cdef public object _recorder
    cdef public object _reject
    cdef public int64_t _request_bytes_max
    cdef public object _snapshot
    cdef public int64_t lone_count
    cdef public object _state_log
    cdef public ProduceTerms _terms
    cdef public TimingWheel _timer

    @cython.locals(
        accumulator=RecordAccumulator, transaction_manager=TransactionManager, ready_nodes=list,
        wait_ms=int64_t, is_late=cython.bint
    )
    cpdef run_once(self, int64_t now_ms)
    cpdef int64_t _drain(self, list ready_nodes, int64_t now_ms) except -1
    cpdef int64_t _wait_ms(self, int64_t now_ms) except -1

    @cython.locals(accumulator=RecordAccumulator, transaction_manager=TransactionManager)
    cpdef bint has_more_to_do(self, int64_t now_ms) except -1

    cpdef bint is_topic_noted(self, str topic) except -1

    @cython.locals(takes=cython.bint, batches=list)
    cpdef send_ready(self, list ready_nodes, int64_t now_ms)

    @cython.locals(topics=dict, encoded=list, batch=ProducerBatch, queue=PartitionQueue)
    cpdef _send(self, object node_id, list batches, int64_t now_ms)
    cpdef _send_encoded(self, object node_id, list batches, dict topics, int64_t now_ms)
