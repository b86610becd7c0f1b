# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
# Why: store forwarding, see "What decides it" in docs/performance.md.
"""The send path: from `Producer.send` to the record's future without any Python bytecode.

Steps that block, decide or fail are left to the path's hooks (`SendHooks`): waiting for metadata or
memory, opening a batch, rolling the sticky partition, calling serializers and partitioners.

A record is appended in two steps. The first includes everything that may run Python code or fail:
argument checks, buffers, the copy of the headers, the future, the chunks. The second, inside the
partition's critical section, is plain stores only. So a signal handler or finalizer that runs in
between finds a consistent batch, and an exception leaves the batch as it was. No Python code runs
after the append either, since the inbox is a deque and the wakeup a built-in. So a caller whose
record was appended always gets the future.

Thread-safety: any thread.
Source: Kafka KafkaProducer.doSend (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyCallable_Check, PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t

from kprod._core.arguments cimport expose, plain_text, whole
from kprod._core.record.batch_builder cimport APPENDED, BatchBuilder, RecordFields
from kprod._core.record.record_size cimport record_size_bound
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.memory.chunk_pool cimport ChunkPool
from kprod._core.clock cimport SystemClock
from kprod._core.record.header_section cimport encode_header_section
from kprod._core.send.key_hash cimport KeyHash, hash_key
from kprod._core.send.partition_appender cimport (
    CLOSED, NO_BATCH, AppendRequest, BatchOpener, PartitionAppender, ReservedChunks, TopicRoutes,
    look_ahead,
)
from kprod._core.send.send_hooks cimport SendHooks

from kprod._core.send.send_hooks import not_initialised
from kprod.errors import LocalProtocolError, RecordTooLarge

cdef const unsigned char* NO_HEADERS = b"\x00"


cdef class SendPath(BatchOpener):
    """Takes records one by one, each into the open batch of its partition.

    Args:
        hooks: Called for steps that block, decide or belong to the application.
        pool: Lends chunks.
        clock: Stamps records.
        inbox: A deque where partitions with a new or full batch are posted for the sender.
        topics: `TopicRoutes` of the known topics, by name; `open_topic` adds to it.
        rules: Limits, choices, and which hooks are needed for each record.
    """

    def __cinit__(self, *_, **__):
        # Fields that are read without a check for None. Sends are rejected until `__init__` is run.
        self._clock = SystemClock()
        self.topics = {}

    def __init__(
        self, SendHooks hooks not None, ChunkPool pool not None, SystemClock clock not None, inbox,
        dict topics not None, rules,
    ):
        if self.closed_error is not not_initialised:
            raise RuntimeError("a SendPath's __init__ was called twice; make another SendPath")
        BatchOpener.__init__(self, hooks, pool, clock, inbox)
        self.topics = topics
        self._max_block_ms = rules.max_block_ms
        self._record_bytes_max = rules.record_bytes_max
        self._has_interceptors = rules.has_interceptors
        self._has_serializers = rules.has_serializers
        self._has_partitioner = rules.has_partitioner
        self._takes_turns = rules.takes_turns
        self._key_hash = <KeyHash>rules.key_hash
        self._hashed_key_bytes_min = rules.hashed_key_bytes_min
        self.closed_error = None

    @cython.final
    @cython.nonecheck(False)
    cdef RecordFuture send(
        self, topic, value, key, headers, partition, timestamp_ms, on_delivery
    ):
        """Append one record, as documented at `Producer.send`."""
        cdef SendArguments given
        cdef int64_t waited_ms = 0
        cdef TopicRoutes routes = self._favourite
        # No argument is assigned to here, so that Cython takes no further reference to one.
        if self.closed_error is not None:
            raise self.closed_error()
        if self._has_interceptors or self._has_serializers:
            return self._send_shown(
                (topic, value, key, headers, partition, timestamp_ms), on_delivery
            )
        borrow(&given, value, key, headers, partition, timestamp_ms, on_delivery)
        # `_routes_of` also checks a callback, before any wait for the topic.
        if routes is None or routes.name is not topic or on_delivery is not None:
            routes = self._routes_of(topic, on_delivery, &waited_ms)
        return self.hand_over(routes, &given, waited_ms, None)

    cdef RecordFuture _send_shown(self, tuple record, on_delivery):
        """Send a record through interceptors and serializers; `record` is as for `intercept`."""
        cdef SendArguments given
        cdef int64_t waited_ms = 0
        cdef TopicRoutes routes
        topic, value, key, headers, partition, timestamp_ms = record
        if self._has_interceptors:
            topic, value, key, headers, partition, timestamp_ms, on_delivery = self.hooks.intercept(
                record, on_delivery
            )
        routes = self._routes_of(topic, on_delivery, &waited_ms)
        if self._has_serializers:
            key, value, headers = self.hooks.serialize(routes.name, key, value, headers)
        borrow(&given, value, key, headers, partition, timestamp_ms, on_delivery)
        return self.hand_over(routes, &given, waited_ms, None)

    @cython.final
    cdef TopicRoutes _routes_of(self, topic, on_delivery, int64_t* waited_ms):
        """Check the callback, and return the routes of the topic, waiting for it if it is new."""
        cdef TopicRoutes routes = self._favourite
        cdef PyObject* found
        cdef int64_t started_ms
        name = topic if PyUnicode_CheckExact(topic) else plain_text(topic)
        if on_delivery is not None and not PyCallable_Check(on_delivery):
            raise TypeError(
                f"on_delivery must be callable or None, got {type(on_delivery).__name__}"
            )
        if routes is not None and routes.name is name:
            return routes
        found = PyDict_GetItem(self.topics, name)
        if found != NULL:
            routes = <TopicRoutes>found
        else:
            started_ms = self._clock.now_ms()
            routes = self.hooks.open_topic(name, self._max_block_ms)
            waited_ms[0] = self._clock.now_ms() - started_ms
        with cython.critical_section(self):
            if self._favourite is None:
                self._favourite = routes
        return routes

    @cython.final
    @cython.nonecheck(False)
    cdef RecordFuture hand_over(
        self, TopicRoutes routes, SendArguments* given, int64_t waited_ms, ReservedChunks reserved
    ):
        """Check, encode and append one serialized record.

        Returns None if `reserved` and the pool lack memory. With `reserved` it never blocks;
        without, it may block for the rest of `max_block_ms`.
        """
        cdef RecordFields record
        cdef AppendRequest request
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef bint key_is_viewed = False
        cdef bint value_is_viewed = False
        cdef bytes section
        cdef Py_ssize_t index
        cdef object partition = <object>given.partition
        request.waited_ms = waited_ms
        request.reserved = NULL if reserved is None else <PyObject*>reserved
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        if given.headers != <PyObject*>None:
            section = encode_header_section(<object>given.headers, self._record_bytes_max)
            if section is None:
                raise self.headers_too_large(routes)
            record.headers = <const unsigned char*>PyBytes_AS_STRING(section)
            record.headers_bytes = PyBytes_GET_SIZE(section)
        try:
            value_is_viewed = expose(
                <object>given.value, &value_view, &record.value, &record.value_bytes, "value"
            )
            key_is_viewed = expose(
                <object>given.key, &key_view, &record.key, &record.key_bytes, "key"
            )
            request.shares_stamp = False
            if given.timestamp_ms == <PyObject*>None:
                record.timestamp_ms = self._clock.shared_timestamp_ms(&self._stamp)
                request.shares_stamp = self._stamp.shared_count > 0
            else:
                record.timestamp_ms = whole(<object>given.timestamp_ms, "timestamp_ms")
            if self._has_partitioner and partition is None:
                partition = self.hooks.choose_partition(
                    routes, <object>given.key, <object>given.value
                )
            index = -1
            if partition is not None or not goes_sticky(self, &record):
                index = self._partition_index(routes, &record, partition, &request.waited_ms)
            return self._append(routes, index, &record, &request, <object>given.on_delivery)
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)

    @cython.final
    @cython.nonecheck(False)
    cdef Py_ssize_t _partition_index(
        self, TopicRoutes routes, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2:
        """Return the given partition, the key's, or the next in turn; −1 for the sticky one."""
        cdef int64_t index
        cdef int64_t started_ms
        if partition is None:
            if goes_sticky(self, record):
                return -1
            if self._takes_turns:
                return self._next_turn(routes)
            if routes.partition_count < 1:
                raise LocalProtocolError(f"topic {routes.name!r} has no partition")
            return <Py_ssize_t>(
                hash_key(self._key_hash, record.key, record.key_bytes)
                % <unsigned int>routes.partition_count
            )
        index = whole(partition, "partition")
        if index >= routes.partition_count:
            started_ms = self._clock.now_ms()
            self.hooks.await_partition(routes, index, self._max_block_ms - waited_ms[0])
            waited_ms[0] += self._clock.now_ms() - started_ms
            if index >= PyList_GET_SIZE(routes.queues):
                raise LocalProtocolError(
                    f"partition {index} of {routes.name!r} was awaited and has no queue"
                )
        return <Py_ssize_t>index

    cdef Py_ssize_t _next_turn(self, TopicRoutes routes) except -2:
        cdef Py_ssize_t turn
        cdef list turns
        with cython.critical_section(routes):
            turn = routes._turn
            routes._turn += 1
            turns = routes.turns
        if not turns:
            return turn % max(routes.partition_count, 1)
        return turns[turn % PyList_GET_SIZE(turns)]

    @cython.final
    @cython.nonecheck(False)
    cdef RecordFuture _append(
        self, TopicRoutes routes, Py_ssize_t index, RecordFields* record, AppendRequest* request,
        object on_delivery
    ):
        """Append to the partition's open batch, opening or extending it as needed.

        `index` −1 means the topic's sticky partition, which may change meanwhile. Returns None if
        the request has reserved chunks, and neither they nor the pool have enough memory now.
        """
        cdef PartitionAppender queue
        cdef BatchBuilder builder
        cdef BatchResult result
        cdef RecordFuture future
        cdef int outcome = APPENDED
        cdef bint is_sticky = index < 0
        request.bound_bytes = (
            record.key_bytes + record.value_bytes + record.headers_bytes + BESIDES_BYTES_MAX
        )
        if request.bound_bytes > self._record_bytes_max:
            request.bound_bytes = self._bound_bytes(routes, record)
        future = future_of(record)
        future._on_delivery = on_delivery
        while True:
            if is_sticky:
                if outcome == NO_BATCH and index != routes.sticky:
                    # Its batch may stay empty; posted, its memory can go to a waiting send.
                    self._post(<PartitionAppender>routes.queues[index])
                index = routes.sticky
            else:
                look_ahead(routes, index, request.bound_bytes)
            # Checked: any Python code may have set the index, and the check costs two instructions.
            with cython.boundscheck(True):
                queue = <PartitionAppender>routes.queues[index]
            with cython.critical_section(queue):
                builder = queue.builder
                result = queue.result
                if self.closed_error is not None:
                    outcome = CLOSED
                elif builder is None:
                    outcome = NO_BATCH
                else:
                    # The callback goes first, since appending it is the one step that can fail.
                    if on_delivery is not None:
                        result._callbacks.append(future)
                    outcome = builder.append(record)
                    if outcome == APPENDED:
                        future._result = result
                        future._index = builder.record_count - 1
                    elif on_delivery is not None:
                        del result._callbacks[PyList_GET_SIZE(result._callbacks) - 1]
            if outcome == APPENDED:
                if future._index == 0:
                    result.created_ms = self._clock.now_ms()
                    self._post(queue)
                elif builder.size_bytes >= builder.limit_bytes:
                    self._post(queue)
                return future
            if not self._make_room(routes, queue, builder, outcome, request):
                return None
            # The records that share the stamp may have been awaited meanwhile: read the clock.
            if outcome == NO_BATCH and request.shares_stamp:
                record.timestamp_ms = self._clock.own_timestamp_ms(&self._stamp)
                future._timestamp_ms = record.timestamp_ms

    cdef object headers_too_large(self, TopicRoutes routes):
        """Create the error for headers that exceed the limit; the rest of them was not read."""
        text = self.hooks.too_large_text(routes.name, self._record_bytes_max + 1)
        return RecordTooLarge(f"the headers alone are too large: {text}")

    @cython.final
    cdef Py_ssize_t _bound_bytes(self, TopicRoutes routes, const RecordFields* record) except -1:
        """Return the most that a batch with this record alone takes; reject it past the limit."""
        cdef Py_ssize_t bound_bytes = record_size_bound(
            record.key_bytes, record.value_bytes, record.headers_bytes
        )
        if bound_bytes > self._record_bytes_max:
            raise RecordTooLarge(self.hooks.too_large_text(routes.name, bound_bytes))
        return bound_bytes


# The path of a producer whose `__init__` has not run: it rejects every record with that reason.
cdef SendPath _path_of_none = SendPath.__new__(SendPath)


# The garbage collector must not clear it, since `send` does not check that there is a path.
@cython.no_gc_clear
cdef class SendMethod:
    """The compiled base class of `Producer`: `send`, and a reference to the engine.

    Args:
        path: The send path.
        engine: The producer's engine, kept as `_kprod`.
    """

    def __cinit__(self, *_, **__):
        self._path = _path_of_none

    def __init__(self, SendPath path not None, engine):
        if self._path is not _path_of_none:
            raise RuntimeError("a SendMethod's __init__ was called twice; make another SendMethod")
        self._path = path
        self._kprod = engine

    # Without binding the interpreter calls the method faster, but the method has no signature; so
    # its signature is embedded in the docstring.
    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    @cython.nonecheck(False)
    def send(
        self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
        on_delivery=None,
    ):
        """Send one record in the background.

        The bytes are copied, so a buffer may change after the call. The call blocks, for at most
        `max_block_ms` in all, if the topic is new or the buffer is full.

        Args:
            topic: Name of the topic.
            value: Bytes-like, or None for a tombstone; any object with a `value_serializer`.
            key: Bytes-like or None; decides the partition if none is given.
            headers: Pairs of a str and bytes-like or None, or a mapping of them.
            partition: 0-based; None lets the key or the partitioner decide.
            timestamp_ms: Milliseconds since 1970; None for the time of the call, which up to
                sixteen calls share after 64 in a row; see `SystemClock.shared_timestamp_ms`.
            on_delivery: Called as `on_delivery(metadata, error)` on the sender's thread when the
                record is settled; exactly one of them is None.

        Returns:
            A `RecordFuture`.

        Raises:
            TypeError: An argument of a wrong type, such as a value that is not bytes-like.
            ValueError: A negative partition or timestamp, or an illegal topic name.
            SerializationError: A serializer raised.
            RecordTooLarge: The record exceeds `max_request_size` or `buffer_memory`.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            UnknownPartition: The topic has no such partition.
            MetadataTimeout: The topic's partitions could not be fetched within `max_block_ms`.
            BufferTimeout: No memory was freed within `max_block_ms`.
            ClosedError: The producer is closed, or was created in a parent process.

        Thread-safety: any thread.
        """
        return self._path.send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
