# The types of accumulator.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.clock cimport SystemClock
from kprod.cluster.metadata cimport Metadata
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.linger cimport Linger
from kprod.producer.partition_queue cimport PartitionQueue
from kprod.producer.partitioner cimport StickyPartitioner
from kprod.producer.queue_leaders cimport QueueLeaders


cdef class RecordAccumulator:
    cdef public SystemClock _clock
    cdef public dict _leaderless
    cdef public QueueLeaders _leaders
    cdef public Linger _linger
    cdef public Metadata _metadata
    cdef public dict _rings
    cdef public object _routed_snapshot
    cdef public int64_t _batch_bytes_max
    cdef public bint wants_sweep
    cdef public object _unfollowed
    cdef public object inbox
    cdef public StickyPartitioner sticky
    cdef public dict topics

    cpdef bint has_news(self) except -1
    cpdef list ready_nodes(self)
    cpdef bint is_alone(self, PartitionQueue queue) except -1
    cpdef bint wants_routes(self) except -1
    cpdef ProducerBatch make_batch(self, object queue, object chain)

    @cython.locals(queue=PartitionQueue)
    cpdef take_inbox(self, int64_t now_ms)

    @cython.locals(leader_id=int64_t)
    cpdef mark_ready(self, PartitionQueue queue)

    @cython.locals(
        queue=PartitionQueue, batch=ProducerBatch, drained=list, size_bytes=int64_t,
    )
    cpdef list drain(self, object node_id, int64_t size_max_bytes, object may_send)

    @cython.locals(queue=PartitionQueue)
    cpdef retire(self, ProducerBatch batch)

    @cython.locals(queue=PartitionQueue)
    cpdef forget(self, ProducerBatch batch)

    @cython.locals(batch=ProducerBatch, index=Py_ssize_t)
    cpdef _give_back_empty(self, PartitionQueue queue)
    cpdef _seal(self, PartitionQueue queue, ProducerBatch batch)
