# The types of direct_path.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.clock cimport SystemClock
from kprod._core.collector cimport pause, resume
from kprod._core.signal_handlers cimport may_run_handlers, settle_collector
from kprod.network.response_wait cimport ResponseWait
from kprod.network.channel cimport Channel
from kprod.network.client cimport NetworkClient
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest
from kprod.network.sleep_hook cimport SleepHook
from kprod.producer.accumulator cimport RecordAccumulator
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue
from kprod.producer.produce_request cimport ProduceRequest
from kprod.producer.sender cimport Sender


cdef class DirectPath(SleepHook):
    cdef public bint is_awaited
    cdef public RecordAccumulator _accumulator
    cdef public NetworkClient _client
    cdef public SystemClock _clock
    cdef public object _failure
    cdef public bint _is_waiting
    cdef public SendPath _path
    cdef public int64_t _request_timeout_ms
    cdef public ResponseWait _response_wait
    cdef public Sender _sender
    cdef public object _sender_lock
    cdef public object _main_ident
    cdef public int64_t _sleeps_until_ms
    cdef public bint uses_tls

    cpdef before_sleep(self, int64_t until_ms)
    cpdef after_sleep(self)
    cpdef close(self)

    cpdef bint send(self, PartitionQueue queue) except -1
    cpdef bint await_response(self, BatchResult result, double timeout_s) except -1

    @cython.locals(
        accumulator=RecordAccumulator, client=NetworkClient, sender=Sender,
        connection=NodeConnection,
    )
    cpdef bint _send(self, PartitionQueue queue, int64_t now_ms) except -1
    cpdef bint _try_lock(self) except -1
    cpdef bint _may_begin(self) except -1
    cpdef _unlock(self)
    cpdef int _begin_wait(self, BatchResult result) except -1
    cpdef int _complete_or_begin_wait(self, BatchResult result) except -1
    cpdef _end_wait(self, BatchResult result)

    @cython.locals(
        response_wait=ResponseWait, request=ProduceRequest, batch=ProducerBatch,
        queue=PartitionQueue
    )
    cpdef bint _concerns_only(self, BatchResult result) except -1

    @cython.locals(
        response_wait=ResponseWait, client=NetworkClient, accumulator=RecordAccumulator,
        in_flight=InFlightRequest, request=ProduceRequest, now_ms=int64_t,
    )
    cpdef _complete(self)


cpdef bint _can_peek(Channel channel) except -1


cpdef ProduceRequest _single_batch_request(InFlightRequest in_flight)


@cython.locals(queue=PartitionQueue, taken=list)
cpdef bint _only_acknowledges(object frame, int version, ProduceRequest request) except -1
