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

Futures are a few words and not tracked by the garbage collector: a future knows its batch's shared
result and its index there. The result keeps a future only when it has a callback to call. No
result refers to chunks, so a kept future keeps no buffer memory.

Thread-safety: `send` any thread. `PartitionHead.builder` and `.result` change together, inside the
    critical section of the head.
Source: Kafka KafkaProducer.doSend, ProduceRequestResult, FutureRecordMetadata (clients 4.3.1).
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
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX
from kprod._core.murmur2 cimport murmur2_bytes

from _thread import allocate_lock
from collections import deque

from kprod.errors import KprodTimeout, RecordTooLarge

cdef enum:
    NO_BATCH = 100
    CLOSED = 101
    # Key and value length varints of the size bound, at most 5 bytes each.
    LENGTHS_BYTES_MAX = 10

cdef const unsigned char* NO_HEADERS = b"\x00"

# What only higher layers can make; set once by `register`, when they are imported.
cdef object _make_metadata = None
cdef object _report_callback_error = None
cdef object _await_future = None
cdef object _to_concurrent = None


def register(*, make_metadata, report_callback_error, await_future, to_concurrent):
    """Tell the compiled core about types and policies above it.

    Args:
        make_metadata: Called with topic, partition, offset, timestamp_ms, key and value size.
        report_callback_error: Called with an exception that a callback raised.
        await_future: Called with a future, returns an awaitable's iterator.
        to_concurrent: Called with a future, returns a `concurrent.futures.Future`.
    """
    global _make_metadata, _report_callback_error, _await_future, _to_concurrent
    _make_metadata = make_metadata
    _report_callback_error = report_callback_error
    _await_future = await_future
    _to_concurrent = to_concurrent


cdef class BatchResult:
    """What became of a batch, shared by the futures of its records.

    It is done once. A batch that was split is done through its children: `forward` hands callbacks
    on and sends everyone who waits to the child that now has the record.

    Thread-safety: `complete` and `forward` by the sender; everything else any thread.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.base_offset = -1
        self.log_append_time_ms = -1

    def complete(self, int64_t base_offset=-1, int64_t log_append_time_ms=-1, error=None, record_errors=None) -> bool:
        """Settle the batch, run its callbacks in record order, then wake who waits.

        Args:
            base_offset: Of the first record; −1 when the broker did not say.
            log_append_time_ms: The broker's timestamp for all records; −1 keeps their own.
            error: For all records; None is success.
            record_errors: Errors of single records by index; they go before `error`.

        Returns:
            False if it was settled before; then nothing changes.
        """
        cdef list callbacks
        with cython.critical_section(self):
            if self.done or self._forwards is not None:
                return False
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.error = error
            self._record_errors = record_errors
            self.done = True
            callbacks = self._callbacks
            self._callbacks = None
        if callbacks is not None:
            if self._callbacks_unordered:
                callbacks.sort(key=_index_of_entry)
            for entry in callbacks:
                _call_back(entry)
        self.finished = True
        self._wake_waiters()
        return True

    def wait_finished(self, double timeout_s) -> bool:
        """Wait until the batch, or every part of it, is done and its callbacks have run.

        Args:
            timeout_s: Seconds; negative waits as long as it takes.

        Returns:
            False when the time is over.
        """
        clock = SystemClock()
        cdef int64_t deadline_ns = clock.now_ns() + <int64_t>(min(max(timeout_s, 0.0), 1e9) * 1e9)
        cdef list open_results = [self]
        cdef BatchResult result
        while open_results:
            result = <BatchResult>open_results.pop()
            if result._forwards is not None:
                open_results.extend([child for _, child in result._forwards])
            elif not result.finished:
                open_results.append(result)
                if timeout_s >= 0:
                    timeout_s = max(deadline_ns - clock.now_ns(), 0) / 1e9
                if not _wait_once(result, timeout_s, True):
                    return False
        return True

    def failed_count(self, record_count: int) -> int:
        """How many of the batch's records are not delivered: failed, or not done yet.

        Args:
            record_count: Of the batch, at least 1.
        """
        if self._forwards is not None:
            ends = [first for first, _ in self._forwards[1:]] + [record_count]
            return sum(
                child.failed_count(end - first)
                for (first, child), end in zip(self._forwards, ends)
            )
        if not self.done or self.error is not None:
            return record_count
        return 0 if self._record_errors is None else len(self._record_errors)

    def forward(self, children) -> None:
        """Let the results of a split batch's parts answer for this one.

        Args:
            children: Pairs of the first index of a part and its result, ascending from index 0.
        """
        cdef BatchResult child
        cdef list callbacks
        cdef list forwards = list(children)
        cdef RecordFuture future
        with cython.critical_section(self):
            callbacks = self._callbacks or []
            self._callbacks = None
            for entry in callbacks:
                future = <RecordFuture>entry[0]
                child = future._descend(forwards)
                if child._callbacks is None:
                    child._callbacks = []
                child._callbacks.append(entry)
                child._callbacks_unordered = self._callbacks_unordered
            self._forwards = forwards
        self._wake_waiters()

    cdef int _wake_waiters(self) except -1:
        cdef list waiters = self._waiters
        self._waiters = None
        if waiters is not None:
            for lock in waiters:
                lock.release()
        return 0


def _index_of_entry(tuple entry):
    return (<RecordFuture>entry[0])._index


cdef int _call_back(tuple entry) except -1:
    """Run one callback; whatever it raises is reported and stops nothing else."""
    cdef RecordFuture future = entry[0]
    cdef BatchResult result = future._result
    try:
        if not entry[2]:
            entry[1](future)
        else:
            error = future._error(result)
            if error is None:
                entry[1](future._metadata(result), None)
            else:
                entry[1](None, error)
    except BaseException as raised:
        _report_callback_error(raised)
    return 0


@cython.no_gc
@cython.final
@cython.freelist(512)
cdef class RecordFuture:
    """The outcome of one `send`: a `RecordMetadata`, or the error that ended it.

    Thread-safety: any thread; awaitable from any running asyncio loop.
    """

    def __init__(self):
        raise TypeError("a RecordFuture is made by Producer.send")

    def _descend(self, list forwards):
        """Move to the child that has this record now, and return it."""
        cdef Py_ssize_t position = len(forwards) - 1
        while position > 0 and forwards[position][0] > self._index:
            position -= 1
        first_index, child = forwards[position]
        self._index -= <int32_t>first_index
        self._result = child
        return child

    cdef BatchResult _settled_by(self):
        """The result that answers for this record, past all splits so far."""
        while self._result._forwards is not None:
            self._descend(self._result._forwards)
        return self._result

    cdef object _metadata(self, BatchResult result):
        cdef int64_t offset = result.base_offset + self._index if result.base_offset >= 0 else -1
        cdef int64_t timestamp_ms = result.log_append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = self._timestamp_ms
        return _make_metadata(
            result.topic, result.partition, offset, timestamp_ms, self._key_bytes, self._value_bytes
        )

    cdef object _error(self, BatchResult result):
        if result._record_errors is not None:
            return result._record_errors.get(self._index, result.error)
        return result.error

    def done(self) -> bool:
        """Whether the record's fate is settled."""
        return self._settled_by().done

    def result(self, timeout=None):
        """Wait for the record's metadata. Waiting does not cut linger short.

        Args:
            timeout: Seconds; None waits as long as it takes, which `delivery_timeout_ms` bounds.

        Returns:
            A `RecordMetadata`.

        Raises:
            KprodTimeout: Not settled in time; the record goes on.
            KprodError: The error that ended the send; its `persistence` says whether the record
                may be in the log.
        """
        cdef BatchResult result = self._wait(timeout)
        error = self._error(result)
        if error is not None:
            # Each caller gets an exception of its own: a shared one would gather tracebacks.
            raise _copy_of(error)
        return self._metadata(result)

    def exception(self, timeout=None):
        """Wait for the outcome, and return the error that ended the send, or None.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            KprodTimeout: Not settled in time; the record goes on.
        """
        return self._error(self._wait(timeout))

    def _wait(self, timeout):
        cdef BatchResult result = self._settled_by()
        if result.done:
            return result
        seconds = -1 if timeout is None else max(float(timeout), 0.0)
        clock = SystemClock()
        cdef int64_t deadline_ns = 0
        if timeout is not None:
            deadline_ns = clock.now_ns() + <int64_t>(min(seconds, 1e9) * 1e9)
        while not result.done:
            if timeout is not None:
                seconds = max(deadline_ns - clock.now_ns(), 0) / 1e9
            if not _wait_once(result, seconds, False):
                raise KprodTimeout(
                    f"the record for {result.topic!r} partition {result.partition} was not settled within"
                    f" {timeout} s; it goes on until delivery_timeout_ms ends it"
                )
            result = self._settled_by()
        return result

    def add_done_callback(self, callback) -> None:
        """Call `callback(future)` once the record is settled; at once if it is.

        It runs on the sender's thread (here if settled already), in record order within a batch,
        outside every lock. What it raises is logged.
        """
        cdef BatchResult result = self._settled_by()
        cdef tuple entry = (self, callback, False)
        with cython.critical_section(result):
            if not result.done and result._forwards is None:
                if result._callbacks is None:
                    result._callbacks = []
                result._callbacks.append(entry)
                result._callbacks_unordered = True
                return
        if result._forwards is not None:
            self.add_done_callback(callback)
        else:
            _call_back(entry)

    def __await__(self):
        return _await_future(self)

    def to_concurrent(self):
        """A `concurrent.futures.Future` with the same outcome."""
        return _to_concurrent(self)


cdef object _copy_of(object error):
    cdef object again = type(error)(*error.args)
    again.__dict__.update(error.__dict__)
    again.__cause__ = error.__cause__
    return again


cdef bint _wait_once(BatchResult result, object seconds, bint until_finished) except -1:
    """Wait until the result is done (finished) or forwarded; False when the time is over."""
    lock = allocate_lock()
    lock.acquire()
    with cython.critical_section(result):
        if result._forwards is not None or (result.finished if until_finished else result.done):
            return True
        if result._waiters is None:
            result._waiters = []
        result._waiters.append(lock)
    try:
        # Only this call can be interrupted by a signal handler that raises.
        return lock.acquire(True, seconds)
    finally:
        waiters = result._waiters
        if waiters is not None and lock in waiters:
            waiters.remove(lock)


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


cdef class SendPath:
    """The compiled half of a producer: `send` and nothing else.

    Args:
        pool: Lends chunks.
        clock: Stamps records.
        inbox: A deque where partitions with a new or full batch are posted for the sender.
        topics: `TopicHead` by name, of the topics that are known; `open_topic` adds to it.
        max_block_ms: Longest a `send` may wait, for metadata and memory together.
        record_bytes_max: Upper bound of a record's encoded size.
        has_serializers: Whether `serialize` must see each record.
        has_partitioner: Whether `choose_partition` must see each record without partition.
        ignores_keys: Whether records with a key go where records without one go.
    """

    def __init__(
        self, ChunkPool pool not None, SystemClock clock not None, inbox, dict topics not None, *,
        int64_t max_block_ms, Py_ssize_t record_bytes_max, bint has_serializers=False,
        bint has_partitioner=False, bint ignores_keys=False,
    ):
        self._pool = pool
        self._clock = clock
        self.inbox = inbox
        self.topics = topics
        self.wake = None
        self._max_block_ms = max_block_ms
        self._record_bytes_max = record_bytes_max
        self._has_serializers = has_serializers
        self._has_partitioner = has_partitioner
        self._ignores_keys = ignores_keys

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
