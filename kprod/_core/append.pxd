from libc.stdint cimport int32_t, int64_t

from kprod._core.batch cimport BatchBuilder, RecordFields
from kprod._core.chunks cimport ChunkPool
from kprod._core.clock cimport SystemClock


cdef class BatchResult:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly bint done
    # Done, and every callback has returned.
    cdef readonly bint finished
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object error
    cdef dict _record_errors
    cdef list _callbacks
    cdef bint _callbacks_unordered
    cdef list _waiters
    cdef list _forwards
    cdef int _wake_waiters(self) except -1


cdef class RecordFuture:
    cdef BatchResult _result
    cdef int64_t _timestamp_ms
    cdef int32_t _index
    cdef int32_t _key_bytes
    cdef int32_t _value_bytes
    cdef BatchResult _settled_by(self)
    cdef object _metadata(self, BatchResult result)
    cdef object _error(self, BatchResult result)


cdef class PartitionHead:
    cdef readonly str topic
    cdef readonly int32_t partition
    # Every batch that is not done, oldest first; the last one may be open.
    cdef readonly object batches
    # The open batch's builder and result, or None.
    cdef readonly BatchBuilder builder
    cdef readonly BatchResult result


cdef class TopicHead:
    cdef readonly str name
    cdef public list queues
    cdef public Py_ssize_t sticky


cdef class SendPath:
    cdef readonly dict topics
    cdef readonly object inbox
    cdef public object refusal
    cdef public bint sender_sleeps
    cdef public object wake
    cdef ChunkPool _pool
    cdef SystemClock _clock
    cdef Py_ssize_t _record_bytes_max
    cdef int64_t _max_block_ms
    cdef bint _has_serializers
    cdef bint _has_partitioner
    cdef bint _ignores_keys

    cdef RecordFuture _append(self, TopicHead head, Py_ssize_t index, RecordFields* record, int64_t waited_ms, object on_delivery)
    cdef int _extend(self, PartitionHead queue, BatchBuilder builder, int64_t* waited_ms) except -1
    cdef int _open(self, PartitionHead queue, list chunks) except -1
    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms)
    cdef int _seal_full(self, PartitionHead queue, BatchBuilder builder) except -1
    cdef int _post(self, PartitionHead queue) except -1
    cdef Py_ssize_t _partition_index(self, TopicHead head, RecordFields* record, object partition, int64_t* waited_ms) except -2
