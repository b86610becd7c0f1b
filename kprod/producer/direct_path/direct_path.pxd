# The types of direct_path.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.send.send_path cimport SendPath
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.clock cimport SystemClock
from kprod._core.collector cimport pause, resume
from kprod.producer.direct_path.response_wait cimport ResponseWait
from kprod.network.client cimport NetworkClient
from kprod.network.connection cimport NodeConnection
from kprod.network.in_flight cimport InFlightRequest
from kprod.producer.accumulator cimport RecordAccumulator
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue
from kprod.producer.produce_request cimport ProduceRequest
from kprod.producer.sender cimport Sender


cdef class DirectPath:
    cdef public bint is_awaited
    cdef public int64_t sleep_max_ms
    cdef public RecordAccumulator _accumulator
    cdef public ResponseWait _answer
    cdef public NetworkClient _client
    cdef public SystemClock _clock
    cdef public bint _is_fetching
    cdef public SendPath _path
    cdef public int64_t _patience_ms
    cdef public Sender _sender
    cdef public object _trouble
    cdef public object _turn
    cdef public int64_t _until_ms

    cpdef bint send(self, PartitionQueue queue) except -1
    cpdef bint fetch(self, BatchResult result, double timeout_s) except -1

    @cython.locals(
        accumulator=RecordAccumulator, client=NetworkClient, sender=Sender,
        connection=NodeConnection,
    )
    cpdef bint _send(self, PartitionQueue queue, int64_t now_ms) except -1
    cpdef bint _enter(self) except -1
    cpdef _leave(self)
    cpdef int _begin(self, BatchResult result) except -1
    cpdef int _take_or_begin(self, BatchResult result) except -1
    cpdef _end(self, BatchResult result)

    @cython.locals(
        answer=ResponseWait, call=ProduceRequest, batch=ProducerBatch, queue=PartitionQueue
    )
    cpdef bint _is_plain(self, BatchResult result) except -1

    @cython.locals(
        answer=ResponseWait, client=NetworkClient, accumulator=RecordAccumulator,
        in_flight=InFlightRequest, call=ProduceRequest, now_ms=int64_t,
    )
    cpdef _take(self)


cpdef ProduceRequest _single_call(InFlightRequest in_flight)


@cython.locals(queue=PartitionQueue, taken=list)
cpdef bint _says_yes(ProduceRequest call, int version, object frame) except -1
