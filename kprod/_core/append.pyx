# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The send path: from `Producer.send` to the record's future without any Python bytecode.

What blocks, decides or fails is handed to methods that `SendPath` names and its Python subclass
fills in: waiting for metadata or memory, opening a batch, rolling the sticky partition, calling
serializers and partitioners.

A record is appended in two steps. First everything that may run Python code or fail: argument
checks, buffers, the headers' copy, the future, the chunks. Then, inside the partition's critical
section, plain stores only. So a signal handler or finalizer that runs in between finds the batch
whole, and an exception leaves it as it was. After the append nothing runs Python code either: the
inbox is a deque and the wake-up a built-in, so whoever appended also gets the future.

Thread-safety: `send` any thread. `PartitionHead.builder` and `.result` change together, inside the
    critical section of the head.
Source: Kafka KafkaProducer.doSend (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from kprod._core.batch cimport APPENDED, BATCH_FULL, NEED_CHUNKS, BatchBuilder, RecordFields, encode_header_section
from kprod._core.chunks cimport Chunk, ChunkChain, ChunkPool, MemoryWaiter
from kprod._core.clock cimport SystemClock
from kprod._core.future cimport BatchResult, RecordFuture
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX
from kprod._core.murmur2 cimport murmur2_bytes

from collections import deque

from kprod.errors import RecordTooLarge

cdef enum:
    NO_BATCH = 100
    CLOSED = 101
    # Key and value length varints of the size bound, at most 5 bytes each.
    LENGTHS_BYTES_MAX = 10

cdef const unsigned char* NO_HEADERS = b"\x00"

cdef class PartitionHead:
    """One partition's queue as the send path sees it: its batches, the last of them maybe open.

    Attributes:
        batches: A deque of the batches that are not done, oldest first.
        builder: The open batch's builder; None when no batch takes records.
        result: The open batch's shared result.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.batches = deque()

    def open(self, batch) -> bool:
        """Put a new batch last in the queue and let records go into it from now on.

        Args:
            batch: Has a `builder` and a `result`.

        Returns:
            False when another thread has opened one meanwhile; then nothing changes.
        """
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        with cython.critical_section(self):
            if self.builder is not None:
                return False
            self.batches.append(batch)
            self.builder = builder
            self.result = result
        return True

    def seal(self) -> None:
        """Let no more records go into the open batch."""
        cdef BatchBuilder builder
        with cython.critical_section(self):
            builder = self.builder
            self.builder = None
            self.result = None
        if builder is not None:
            builder.seal()


cdef class TopicHead:
    """What the send path needs of a topic: its partitions' queues and the sticky partition.

    Attributes:
        queues: One `PartitionHead` for each partition, by number.
        sticky: Where records without key and partition go now.
    """

    def __init__(self, str name not None, list queues not None):
        self.name = name
        self.queues = queues


cdef class SendOptions:
    """What a send path must know of its producer's settings.

    Args:
        max_block_ms: Longest a `send` may wait, for metadata and memory together.
        record_bytes_max: Upper bound of a record's encoded size.
        has_serializers: Whether `serialize` must see each record.
        has_partitioner: Whether `choose_partition` must see each record without partition.
        ignores_keys: Whether records with a key go where records without one go.
    """

    def __init__(
        self, *, int64_t max_block_ms, Py_ssize_t record_bytes_max, bint has_serializers=False,
        bint has_partitioner=False, bint ignores_keys=False,
    ):
        self.max_block_ms = max_block_ms
        self.record_bytes_max = record_bytes_max
        self.has_serializers = has_serializers
        self.has_partitioner = has_partitioner
        self.ignores_keys = ignores_keys


cdef class SendPath:
    """The compiled half of a producer: `send` and nothing else.

    Args:
        pool: Lends chunks.
        clock: Stamps records.
        inbox: A deque where partitions with a new or full batch are posted for the sender.
        topics: `TopicHead` by name, of the topics that are known; `open_topic` adds to it.
        options: From the settings.
    """

    def __init__(
        self, ChunkPool pool not None, SystemClock clock not None, inbox, dict topics not None,
        SendOptions options not None,
    ):
        self._pool = pool
        self._clock = clock
        self.inbox = inbox
        self.topics = topics
        self.wake = None
        self._max_block_ms = options.max_block_ms
        self._record_bytes_max = options.record_bytes_max
        self._has_serializers = options.has_serializers
        self._has_partitioner = options.has_partitioner
        self._ignores_keys = options.ignores_keys

    def send(
        self, str topic not None, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
        on_delivery=None,
    ):
        """Hand over one record; it is sent in the background.

        The bytes are copied, so a buffer may change after the call. Waits, for at most
        `max_block_ms` in all, when the topic is new or the buffer is full.

        Args:
            topic: Name of the topic.
            value: Bytes-like, or None for a tombstone; anything at all with a `value_serializer`.
            key: Bytes-like or None; decides the partition when none is given.
            headers: Pairs of a str and bytes-like or None, or a mapping of them.
            partition: 0-based; None lets the key or the partitioner decide.
            timestamp_ms: Milliseconds since 1970; None is now.
            on_delivery: Called as `on_delivery(metadata, error)` on the sender's thread when the
                record is settled; exactly one of them is None.

        Returns:
            A `RecordFuture`.

        Raises:
            TypeError: A value or key that is not bytes-like, or malformed headers.
            ValueError: A negative partition or timestamp.
            RecordTooLarge: The record exceeds `max_request_size` or `buffer_memory`.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            UnknownPartition: The topic has no such partition.
            MetadataTimeout: The topic's partitions could not be learnt within `max_block_ms`.
            BufferTimeout: No memory came free within `max_block_ms`.
            ClosedError: The producer is closed, or was made in a parent process.

        Thread-safety: any thread.
        """
        cdef RecordFields record
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef bint key_is_viewed = False
        cdef bint value_is_viewed = False
        cdef int64_t waited_ms = 0
        cdef int64_t started_ms
        cdef bytes section
        cdef TopicHead head
        cdef PyObject* found
        if self.refusal is not None:
            raise self.refusal()
        found = PyDict_GetItem(self.topics, topic)
        if found != NULL:
            head = <TopicHead>found
        else:
            started_ms = self._clock.now_ms()
            head = self.open_topic(topic, self._max_block_ms)
            waited_ms = self._clock.now_ms() - started_ms
        if self._has_serializers:
            key, value, headers = self.serialize(topic, key, value, headers)

        record.headers = NO_HEADERS
        record.headers_bytes = 1
        record.key = record.value = NULL
        record.key_bytes = record.value_bytes = -1
        if headers:
            section = encode_header_section(headers)
            record.headers = <const unsigned char*>PyBytes_AS_STRING(section)
            record.headers_bytes = PyBytes_GET_SIZE(section)
        try:
            if value is not None:
                if PyBytes_CheckExact(value):
                    record.value = <const unsigned char*>PyBytes_AS_STRING(value)
                    record.value_bytes = PyBytes_GET_SIZE(value)
                else:
                    _view(value, &value_view, "value")
                    value_is_viewed = True
                    record.value = <const unsigned char*>value_view.buf
                    record.value_bytes = value_view.len
            if key is not None:
                if PyBytes_CheckExact(key):
                    record.key = <const unsigned char*>PyBytes_AS_STRING(key)
                    record.key_bytes = PyBytes_GET_SIZE(key)
                else:
                    _view(key, &key_view, "key")
                    key_is_viewed = True
                    record.key = <const unsigned char*>key_view.buf
                    record.key_bytes = key_view.len
            if timestamp_ms is None:
                record.timestamp_ms = self._clock.timestamp_ms()
            else:
                record.timestamp_ms = timestamp_ms
                if record.timestamp_ms < 0:
                    raise ValueError(f"timestamp_ms must be >= 0, got {timestamp_ms}")
            if self._has_partitioner and partition is None:
                partition = self.choose_partition(head, key, value)
            if partition is None and (key is None or self._ignores_keys):
                return self._append(head, -1, &record, waited_ms, on_delivery)
            return self._append(
                head, self._partition_index(head, &record, partition, &waited_ms), &record, waited_ms, on_delivery
            )
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)

    cdef Py_ssize_t _partition_index(
        self, TopicHead head, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2:
        """The partition given, or the key's among all partitions."""
        cdef Py_ssize_t index
        cdef int64_t started_ms
        if partition is None:
            return <Py_ssize_t>(
                (murmur2_bytes(record.key, record.key_bytes) & 0x7FFFFFFF) % <unsigned int>PyList_GET_SIZE(head.queues)
            )
        index = partition
        if index < 0:
            raise ValueError(f"partition must be >= 0, got {index}")
        if index >= PyList_GET_SIZE(head.queues):
            started_ms = self._clock.now_ms()
            self.await_partition(head, index, self._max_block_ms - waited_ms[0])
            waited_ms[0] += self._clock.now_ms() - started_ms
        return index

    cdef RecordFuture _append(
        self, TopicHead head, Py_ssize_t index, RecordFields* record, int64_t waited_ms, object on_delivery
    ):
        """Append to the partition's open batch, opening or lengthening it as needed.

        `index` −1 means the topic's sticky partition, which may change on the way.
        """
        cdef PartitionHead queue
        cdef BatchBuilder builder
        cdef BatchResult result
        cdef RecordFuture future
        cdef tuple entry = None
        cdef int outcome
        cdef bint is_sticky = index < 0
        cdef Py_ssize_t bound_bytes = (
            <Py_ssize_t>BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES_MAX + LENGTHS_BYTES_MAX
            + max(record.key_bytes, 0) + max(record.value_bytes, 0) + record.headers_bytes
        )
        if bound_bytes > self._record_bytes_max:
            raise RecordTooLarge(self.too_large_text(head.name, bound_bytes))
        future = RecordFuture.__new__(RecordFuture)
        future._timestamp_ms = record.timestamp_ms
        future._key_bytes = <int32_t>record.key_bytes
        future._value_bytes = <int32_t>record.value_bytes
        if on_delivery is not None:
            entry = (future, on_delivery, True)
        while True:
            if is_sticky:
                index = head.sticky
            queue = <PartitionHead>head.queues[index]
            with cython.critical_section(queue):
                builder = queue.builder
                result = queue.result
                if self.refusal is not None:
                    outcome = CLOSED
                elif builder is None:
                    outcome = NO_BATCH
                else:
                    outcome = builder.append(record)
                    if outcome == APPENDED:
                        future._result = result
                        future._index = builder.record_count - 1
                        if entry is not None:
                            if result._callbacks is None:
                                result._callbacks = []
                            result._callbacks.append(entry)
            if outcome == APPENDED:
                if future._index == 0 or builder.size_bytes >= builder.limit_bytes:
                    self._post(queue)
                return future
            if outcome == NEED_CHUNKS:
                self._extend(queue, builder, &waited_ms)
            elif outcome == BATCH_FULL:
                self._seal_full(queue, builder)
                if is_sticky:
                    self.roll_sticky(head)
            elif outcome == NO_BATCH:
                self._open(queue, self._take(1, False, &waited_ms))
            else:
                raise self.refusal()

    cdef int _seal_full(self, PartitionHead queue, BatchBuilder builder) except -1:
        """Close a full batch for appends, unless another thread has done it, and post it."""
        with cython.critical_section(queue):
            if queue.builder is not builder:
                return 0
            queue.builder = None
            queue.result = None
        builder.seal()
        self._post(queue)
        return 0

    cdef int _extend(self, PartitionHead queue, BatchBuilder builder, int64_t* waited_ms) except -1:
        """Lengthen the open batch by what its record misses, all chunks or none."""
        cdef list chunks = self._take(builder.missing_bytes, True, waited_ms)
        cdef Chunk chunk
        with cython.critical_section(queue):
            if queue.builder is not None:
                builder = queue.builder
                for chunk in chunks:
                    builder.extend(chunk)
                return 0
        # The batch was drained meanwhile; the chunks begin the next one.
        return self._open(queue, chunks)

    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms):
        """Chunks of at least `missing_bytes` together, all or none; waits in line if it must."""
        cdef ChunkPool pool = self._pool
        cdef Py_ssize_t chunk_bytes = pool.large_chunk_bytes if large else pool.small_chunk_bytes
        cdef Py_ssize_t chunk_count = (missing_bytes + chunk_bytes - 1) // chunk_bytes
        cdef list chunks = []
        cdef Chunk chunk
        cdef MemoryWaiter waiter
        cdef int64_t started_ms
        while len(chunks) < chunk_count:
            chunk = pool.try_take(large)
            if chunk is None:
                break
            chunks.append(chunk)
        else:
            return chunks
        # Whoever waited with chunks in hand could wait for someone who does the same.
        pool.give_back_chunks(chunks)
        waiter = MemoryWaiter(chunk_count, large, chunk_bytes)
        started_ms = self._clock.now_ms()
        try:
            pool.join_line(waiter)
            self.wait_for_memory(waiter, self._max_block_ms - waited_ms[0])
            chunks = pool.claim(waiter)
        finally:
            pool.leave_line(waiter)
        waited_ms[0] += self._clock.now_ms() - started_ms
        return chunks

    cdef int _open(self, PartitionHead queue, list chunks) except -1:
        """Open a batch on these chunks; they go back unless it came to own them."""
        cdef ChunkChain chain = ChunkChain(self._pool, chunks)
        try:
            batch = self.make_batch(queue, chain)
        except BaseException:
            chain.release()
            raise
        if not queue.open(batch):
            chain.release()
        return 0

    cdef int _post(self, PartitionHead queue) except -1:
        """Tell the sender, and wake it if it sleeps. Built-ins only: no bytecode, no signals."""
        self.inbox.append(queue)
        if self.sender_sleeps and self.wake is not None:
            # Cleared first: cleared after the call it could undo the sender's next falling asleep.
            self.sender_sleeps = False
            try:
                self.wake()
            except BaseException:
                self.sender_sleeps = True
                raise
        return 0

    # What the compiled path leaves to Python. Arguments that end in `timeout_ms` may be <= 0:
    # then nothing waits.

    def open_topic(self, topic, timeout_ms):
        """Wait until the topic's partitions are known, and return its `TopicHead`."""
        raise NotImplementedError

    def await_partition(self, head, partition, timeout_ms):
        """Wait until the topic has this partition, or raise."""
        raise NotImplementedError

    def make_batch(self, queue, chain):
        """Make a batch for the partition, with a builder on this chain and a result."""
        raise NotImplementedError

    def wait_for_memory(self, waiter, timeout_ms):
        """Wait until the waiter is satisfied, or raise."""
        raise NotImplementedError

    def roll_sticky(self, head):
        """Choose another sticky partition, since the present one's batch is full."""
        raise NotImplementedError

    def choose_partition(self, head, key, value):
        """Ask the user's partitioner."""
        raise NotImplementedError

    def serialize(self, topic, key, value, headers):
        """Run serializers and interceptors; returns key, value, headers."""
        raise NotImplementedError

    def too_large_text(self, topic, size_bytes):
        """Why a record of this size is refused."""
        raise NotImplementedError


cdef int _view(object given, Py_buffer* view, str role) except -1:
    if not PyObject_CheckBuffer(given):
        remedy = f"encode it ({role}.encode())" if isinstance(given, str) else "serialize it"
        raise TypeError(
            f"{role} must be bytes-like or None, got {type(given).__name__}: {remedy}, or set {role}_serializer"
        )
    PyObject_GetBuffer(given, view, PyBUF_SIMPLE)
    return 0
