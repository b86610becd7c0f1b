from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from kprod._core.record.batch_builder cimport RecordFields
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.clock cimport SharedStamp
from kprod._core.send.key_hash cimport KeyHash
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX
from kprod._core.send.partition_appender cimport (
    AppendRequest, BatchOpener, ReservedChunks, TopicRoutes,
)
from kprod._core.outcome.record_future cimport RecordFuture


cdef enum:
    # Most bytes of a one-record batch besides key, value and headers; two lengths take 5 each.
    BESIDES_BYTES_MAX = BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES_MAX + 10


# The arguments of `hand_over`, as borrowed references: the caller holds them.
cdef struct SendArguments:
    PyObject* value
    PyObject* key
    PyObject* headers
    PyObject* partition
    PyObject* timestamp_ms
    PyObject* on_delivery


# Filled in place: copying the struct with wide loads right after narrow stores would defeat the
# processor's store forwarding.
cdef inline void borrow(
    SendArguments* given, value, key, headers, partition, timestamp_ms, on_delivery
) noexcept:
    given.value = <PyObject*>value
    given.key = <PyObject*>key
    given.headers = <PyObject*>headers
    given.partition = <PyObject*>partition
    given.timestamp_ms = <PyObject*>timestamp_ms
    given.on_delivery = <PyObject*>on_delivery


cdef class SendPath(BatchOpener):
    cdef readonly dict topics
    # The topic of the first send, which needs no look-up; set once.
    cdef TopicRoutes _favourite
    cdef Py_ssize_t _record_bytes_max
    cdef bint _has_interceptors
    cdef bint _has_serializers
    cdef bint _has_partitioner
    cdef bint _takes_turns
    cdef KeyHash _key_hash
    cdef Py_ssize_t _hashed_key_bytes_min
    # The last field, since other modules are compiled with the offsets of the fields before it.
    cdef SharedStamp _stamp

    cdef RecordFuture send(
        self, topic, value, key, headers, partition, timestamp_ms, on_delivery
    )
    cdef RecordFuture _send_shown(self, tuple record, on_delivery)
    cdef TopicRoutes _routes_of(self, topic, on_delivery, int64_t* waited_ms)
    cdef RecordFuture hand_over(
        self, TopicRoutes routes, SendArguments* given, int64_t waited_ms, ReservedChunks reserved
    )
    cdef RecordFuture _append(
        self, TopicRoutes routes, Py_ssize_t index, RecordFields* record, AppendRequest* request,
        object on_delivery
    )
    cdef object headers_too_large(self, TopicRoutes routes)
    cdef Py_ssize_t _bound_bytes(self, TopicRoutes routes, const RecordFields* record) except -1
    cdef Py_ssize_t _partition_index(
        self, TopicRoutes routes, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2
    cdef Py_ssize_t _next_turn(self, TopicRoutes routes) except -2


cdef class SendMethod:
    # Never None and set once, so `send` neither checks it nor takes a reference to it.
    cdef SendPath _path
    cdef readonly object _kprod


# Whether a record without a partition goes to the sticky one: its key does not decide, and the
# partitions do not take turns.
cdef inline bint goes_sticky(SendPath path, const RecordFields* record) noexcept:
    return record.key_bytes < path._hashed_key_bytes_min and not path._takes_turns


# Create the future of a record that is about to be appended.
cdef inline RecordFuture future_of(const RecordFields* record):
    cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
    future._timestamp_ms = record.timestamp_ms
    future._key_bytes = <int32_t>record.key_bytes
    future._value_bytes = <int32_t>record.value_bytes
    return future
