# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
"""The send path: from `Producer.send` to the record's future without any Python bytecode.

What blocks, decides or fails is handed to methods that `SendHooks` names and the Python subclass of
`SendPath` fills in: waiting for metadata or memory, opening a batch, rolling the sticky partition,
calling serializers and partitioners.

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
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyCallable_Check, PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t

from kprod._core.arguments cimport expose, plain_text, whole
from kprod._core.batch cimport (
    APPENDED, BATCH_FULL, NEED_CHUNKS, BatchBuilder, RecordFields, record_size_bound,
)
from kprod._core.batch_result cimport BatchResult
from kprod._core.chunk cimport Chunk
from kprod._core.chunks cimport ChunkChain, ChunkPool
from kprod._core.clock cimport SystemClock
from kprod._core.header_section cimport encode_header_section
from kprod._core.key_hash cimport KeyHash, hash_key
from kprod._core.memory_waiter cimport MemoryWaiter
from kprod._core.record_future cimport RecordFuture

from collections import deque

from kprod._core.send_hooks import not_initialised
from kprod.errors import LocalProtocolError, RecordTooLarge

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
        return self.enter(batch, None)

    cdef bint enter(self, object batch, SendPath path) except -1:
        """As `open`; also False when the path refuses records by now."""
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        with cython.critical_section(self):
            if self.builder is not None or (path is not None and path.refusal is not None):
                return False
            if path is not None:
                result.lane = path.lane
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
        queues: One `PartitionHead` for each partition, by number; never shrinks.
        partition_count: How many of them the topic has now.
        sticky: Where records without key and partition go now.
        turns: Partitions that records go to in turn, where they do; all when empty.
    """

    def __init__(self, str name not None, list queues not None):
        self.name = name
        self.queues = queues
        self.partition_count = len(queues)
        self.turns = []


cdef class ChunkHand:
    """What a send that must not wait brings along, and what it misses.

    Attributes:
        chunks: Lent by the pool; a send that needs memory uses all of them, if they are enough.
        missing_count: How many chunks the latest send missed that came to nothing.
        missing_large: Whether large ones.
    """

    def __init__(self):
        self.chunks = []

    cdef list fill(self, SendPath path, Py_ssize_t missing_bytes, bint large):
        """Chunks out of this hand or the pool; None if neither has them, and what is missing."""
        cdef Py_ssize_t chunk_bytes = (
            path._pool.large_chunk_bytes if large else path._pool.small_chunk_bytes
        )
        cdef Py_ssize_t size_bytes = 0
        cdef Chunk chunk
        cdef list chunks = self.chunks
        for chunk in chunks:
            size_bytes += chunk.capacity_bytes
        if size_bytes >= missing_bytes:
            self.chunks = []
            return chunks
        self.missing_count = (missing_bytes + chunk_bytes - 1) // chunk_bytes
        self.missing_large = large
        return path._try_take(self.missing_count, large)


cdef class SendPath(SendHooks):
    """The compiled half of a producer: `send` and nothing else.

    Args:
        pool: Lends chunks.
        clock: Stamps records.
        inbox: A deque where partitions with a new or full batch are posted for the sender.
        topics: `TopicHead` by name, of the topics that are known; `open_topic` adds to it.
        rules: What is checked, asked and chosen for each record.
    """

    def __cinit__(self, *_, **__):
        # What `send` reads without a look whether it is None. It refuses until `__init__` has run.
        self._clock = SystemClock()
        self.topics = {}
        self.refusal = not_initialised

    def __init__(
        self, ChunkPool pool not None, SystemClock clock not None, inbox, dict topics not None,
        rules,
    ):
        if self.refusal is not not_initialised:
            raise RuntimeError("a Producer's __init__ was called twice; make another Producer")
        self._pool = pool
        self._clock = clock
        self.inbox = inbox
        self.topics = topics
        self.wake = self.lane = None
        self._max_block_ms = rules.max_block_ms
        self._record_bytes_max = rules.record_bytes_max
        self._has_interceptors = rules.has_interceptors
        self._has_serializers = rules.has_serializers
        self._has_partitioner = rules.has_partitioner
        self._takes_turns = rules.takes_turns
        self._key_hash = <KeyHash>rules.key_hash
        self._hashed_key_bytes_min = rules.hashed_key_bytes_min
        self.refusal = None

    # The interpreter calls a plain method faster than one that knows its signature, so this one
    # says in its text what it is called with.
    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    @cython.nonecheck(False)
    def send(
        self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
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
            timestamp_ms: Milliseconds since 1970; None is the moment of the call, where up to
                sixteen in a row of more than 64 share one; see `SystemClock.shared_timestamp_ms`.
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
            MetadataTimeout: The topic's partitions could not be learnt within `max_block_ms`.
            BufferTimeout: No memory came free within `max_block_ms`.
            ClosedError: The producer is closed, or was made in a parent process.

        Thread-safety: any thread.
        """
        cdef SendArguments given
        cdef int64_t waited_ms = 0
        cdef TopicHead head = self._favourite
        # Nothing is assigned to an argument here, so that none of them is counted once more.
        if self.refusal is not None:
            raise self.refusal()
        if self._has_interceptors or self._has_serializers:
            return self._send_shown(
                (topic, value, key, headers, partition, timestamp_ms), on_delivery
            )
        borrow(&given, value, key, headers, partition, timestamp_ms, on_delivery)
        # A callback is checked there too, before anything waits for the topic.
        if head is None or head.name is not topic or on_delivery is not None:
            head = self._head_of(topic, on_delivery, &waited_ms)
        return self.hand_over(head, &given, waited_ms, None)

    cdef RecordFuture _send_shown(self, tuple record, on_delivery):
        """As `send`, by way of interceptors and serializers; the record as `intercept` has it."""
        cdef SendArguments given
        cdef int64_t waited_ms = 0
        cdef TopicHead head
        topic, value, key, headers, partition, timestamp_ms = record
        if self._has_interceptors:
            topic, value, key, headers, partition, timestamp_ms, on_delivery = self.intercept(
                record, on_delivery
            )
        head = self._head_of(topic, on_delivery, &waited_ms)
        if self._has_serializers:
            key, value, headers = self.serialize(head.name, key, value, headers)
        borrow(&given, value, key, headers, partition, timestamp_ms, on_delivery)
        return self.hand_over(head, &given, waited_ms, None)

    @cython.final
    cdef TopicHead _head_of(self, topic, on_delivery, int64_t* waited_ms):
        """The record's topic, which may have to be waited for; its callback is checked before."""
        cdef TopicHead head = self._favourite
        cdef PyObject* found
        cdef int64_t started_ms
        name = topic if PyUnicode_CheckExact(topic) else plain_text(topic)
        if on_delivery is not None and not PyCallable_Check(on_delivery):
            raise TypeError(
                f"on_delivery must be callable or None, got {type(on_delivery).__name__}"
            )
        if head is not None and head.name is name:
            return head
        found = PyDict_GetItem(self.topics, name)
        if found != NULL:
            head = <TopicHead>found
        else:
            started_ms = self._clock.now_ms()
            head = self.open_topic(name, self._max_block_ms)
            waited_ms[0] = self._clock.now_ms() - started_ms
        with cython.critical_section(self):
            if self._favourite is None:
                self._favourite = head
        return head

    @cython.final
    @cython.nonecheck(False)
    cdef RecordFuture hand_over(
        self, TopicHead head, SendArguments* given, int64_t waited_ms, ChunkHand hand
    ):
        """Check, encode and append one serialized record; None if `hand` has not enough memory.

        With a hand nothing waits; without one it may, for what `waited_ms` leaves.
        """
        cdef RecordFields record
        cdef RoomNeed need
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef bint key_is_viewed = False
        cdef bint value_is_viewed = False
        cdef bytes section
        cdef Py_ssize_t index
        cdef object partition = <object>given.partition
        need.waited_ms = waited_ms
        need.hand = NULL if hand is None else <PyObject*>hand
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        if given.headers != <PyObject*>None:
            section = encode_header_section(<object>given.headers, self._record_bytes_max)
            if section is None:
                raise self.headers_too_large(head)
            record.headers = <const unsigned char*>PyBytes_AS_STRING(section)
            record.headers_bytes = PyBytes_GET_SIZE(section)
        try:
            value_is_viewed = expose(
                <object>given.value, &value_view, &record.value, &record.value_bytes, "value"
            )
            key_is_viewed = expose(
                <object>given.key, &key_view, &record.key, &record.key_bytes, "key"
            )
            need.shares_stamp = False
            if given.timestamp_ms == <PyObject*>None:
                record.timestamp_ms = self._clock.shared_timestamp_ms(&self._stamp)
                need.shares_stamp = self._stamp.shared_count > 0
            else:
                record.timestamp_ms = whole(<object>given.timestamp_ms, "timestamp_ms")
            if self._has_partitioner and partition is None:
                partition = self.choose_partition(head, <object>given.key, <object>given.value)
            index = -1
            if partition is not None or not goes_sticky(self, &record):
                index = self._partition_index(head, &record, partition, &need.waited_ms)
            return self._append(head, index, &record, &need, <object>given.on_delivery)
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)

    @cython.final
    @cython.nonecheck(False)
    cdef Py_ssize_t _partition_index(
        self, TopicHead head, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2:
        """The partition given, the key's among all, or the next in turn; −1: the sticky one."""
        cdef int64_t index
        cdef int64_t started_ms
        if partition is None:
            if goes_sticky(self, record):
                return -1
            if self._takes_turns:
                return self._next_turn(head)
            if head.partition_count < 1:
                raise LocalProtocolError(f"topic {head.name!r} has no partition")
            return <Py_ssize_t>(
                hash_key(self._key_hash, record.key, record.key_bytes)
                % <unsigned int>head.partition_count
            )
        index = whole(partition, "partition")
        if index >= head.partition_count:
            started_ms = self._clock.now_ms()
            self.await_partition(head, index, self._max_block_ms - waited_ms[0])
            waited_ms[0] += self._clock.now_ms() - started_ms
            if index >= PyList_GET_SIZE(head.queues):
                raise LocalProtocolError(
                    f"partition {index} of {head.name!r} was awaited and has no queue"
                )
        return <Py_ssize_t>index

    cdef Py_ssize_t _next_turn(self, TopicHead head) except -2:
        cdef Py_ssize_t turn
        cdef list turns
        with cython.critical_section(head):
            turn = head._turn
            head._turn += 1
            turns = head.turns
        if not turns:
            return turn % max(head.partition_count, 1)
        return turns[turn % PyList_GET_SIZE(turns)]

    @cython.final
    @cython.nonecheck(False)
    cdef RecordFuture _append(
        self, TopicHead head, Py_ssize_t index, RecordFields* record, RoomNeed* need,
        object on_delivery
    ):
        """Append to the partition's open batch, opening or lengthening it as needed.

        `index` −1 means the topic's sticky partition, which may change on the way. None if there
        is a hand, and neither it nor the pool has the memory now.
        """
        cdef PartitionHead queue
        cdef BatchBuilder builder
        cdef BatchResult result
        cdef RecordFuture future
        cdef int outcome = APPENDED
        cdef bint is_sticky = index < 0
        need.bound_bytes = (
            record.key_bytes + record.value_bytes + record.headers_bytes + BESIDES_BYTES_MAX
        )
        if need.bound_bytes > self._record_bytes_max:
            need.bound_bytes = self._bound_bytes(head, record)
        future = future_of(record)
        future._on_delivery = on_delivery
        while True:
            if is_sticky:
                if outcome == NO_BATCH and index != head.sticky:
                    # Its batch may stay empty, and another send may wait for that memory.
                    self._post(<PartitionHead>head.queues[index])
                index = head.sticky
            else:
                look_ahead(head, index, need.bound_bytes)
            # Checked: what names the place may be written by anybody, and costs two instructions.
            with cython.boundscheck(True):
                queue = <PartitionHead>head.queues[index]
            with cython.critical_section(queue):
                builder = queue.builder
                result = queue.result
                if self.refusal is not None:
                    outcome = CLOSED
                elif builder is None:
                    outcome = NO_BATCH
                else:
                    # The callback first: putting it there is the one step that can fail.
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
            if not self._make_room(head, queue, builder, outcome, need):
                return None
            if outcome == NO_BATCH and need.shares_stamp:  # perhaps the others were awaited since
                record.timestamp_ms = self._clock.own_timestamp_ms(&self._stamp)
                future._timestamp_ms = record.timestamp_ms

    cdef bint _make_room(
        self, TopicHead head, PartitionHead queue, BatchBuilder builder, int outcome, RoomNeed* need
    ) except -1:
        """Do what a record that was not appended waits for; then it is tried again.

        False if it must not wait, and there is no memory.
        """
        cdef bint is_small
        cdef list chunks
        if outcome == NEED_CHUNKS:
            chunks = self._take_for(need, builder.missing_bytes, True)
            if chunks is not None:
                self._extend(queue, chunks)
            return chunks is not None
        if outcome == BATCH_FULL:
            self._seal_full(queue, builder)
            if queue.partition == head.sticky:
                self.roll_sticky(head)
            return True
        if outcome == NO_BATCH:
            # Enough for the whole record: who opens a batch and then waits for more would hold
            # memory that another does not get.
            is_small = need.bound_bytes <= self._pool.small_chunk_bytes
            chunks = self._take_for(need, need.bound_bytes, not is_small)
            if chunks is not None:
                self._open(queue, chunks)
            return chunks is not None
        raise self.refusal()

    cdef object headers_too_large(self, TopicHead head):
        """The error for headers of which no more was read, since they pass the limit already."""
        text = self.too_large_text(head.name, self._record_bytes_max + 1)
        return RecordTooLarge(f"the headers alone are too large: {text}")

    @cython.final
    cdef Py_ssize_t _bound_bytes(self, TopicHead head, const RecordFields* record) except -1:
        """The most that the record's batch takes with it alone; refused past the limit."""
        cdef Py_ssize_t bound_bytes = record_size_bound(
            record.key_bytes, record.value_bytes, record.headers_bytes
        )
        if bound_bytes > self._record_bytes_max:
            raise RecordTooLarge(self.too_large_text(head.name, bound_bytes))
        return bound_bytes

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

    cdef int _extend(self, PartitionHead queue, list chunks) except -1:
        """Lengthen the open batch, by all chunks or none."""
        cdef BatchBuilder builder
        cdef Py_ssize_t last
        try:
            with cython.critical_section(queue):
                builder = queue.builder
                if builder is not None:
                    for last in range(PyList_GET_SIZE(chunks) - 1, -1, -1):
                        builder.extend(chunks[last])
                        del chunks[last]
                    return 0
        except MemoryError:
            self._pool.give_back_chunks(chunks)
            raise
        # The batch was drained meanwhile, and another may need more than these. Whoever kept them
        # and waited for the rest could wait for someone who does the same.
        self._pool.give_back_chunks(chunks)
        return 0

    cdef list _try_take(self, Py_ssize_t chunk_count, bint large):
        """So many chunks, or None when there are not as many now."""
        cdef ChunkPool pool = self._pool
        cdef list chunks = []
        cdef Chunk chunk
        while PyList_GET_SIZE(chunks) < chunk_count:
            chunk = pool.try_take(large)
            if chunk is None:
                # Whoever waited with chunks in hand could wait for someone who does the same.
                pool.give_back_chunks(chunks)
                return None
            chunks.append(chunk)
        return chunks

    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms):
        """Chunks of at least `missing_bytes` together, all or none; waits in line if it must."""
        cdef ChunkPool pool = self._pool
        cdef Py_ssize_t chunk_bytes = pool.large_chunk_bytes if large else pool.small_chunk_bytes
        cdef Py_ssize_t chunk_count = (missing_bytes + chunk_bytes - 1) // chunk_bytes
        cdef list chunks = self._try_take(chunk_count, large)
        cdef MemoryWaiter waiter
        cdef int64_t started_ms
        if chunks is not None:
            return chunks
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

    cdef list _take_for(self, RoomNeed* need, Py_ssize_t missing_bytes, bint large):
        """As `_take` for a send that may wait; None if it must not, and there are none."""
        if need.hand == NULL:
            return self._take(missing_bytes, large, &need.waited_ms)
        return (<ChunkHand>need.hand).fill(self, missing_bytes, large)

    cdef int _open(self, PartitionHead queue, list chunks) except -1:
        """Open a batch on these chunks; they go back unless it came to own them."""
        cdef ChunkChain chain
        try:
            chain = ChunkChain(self._pool, chunks)
        except MemoryError:
            self._pool.give_back_chunks(chunks)
            raise
        try:
            batch = self.make_batch(queue, chain)
            if queue.enter(batch, self):
                return 0
        except BaseException:
            chain.release()
            raise
        chain.release()
        return 0

    cdef int _post(self, PartitionHead queue) except -1:
        """Tell the sender, and wake it if it sleeps and the lane cannot do without it.

        Compiled code and built-ins only, a deque and a socket: no bytecode runs between an append
        and the return of its future, so no signal handler does.
        """
        self.inbox.append(queue)
        if self.sender_sleeps:
            if self.lane is None or not self.lane.send(queue):
                self.wake_sender()
        return 0

    cpdef int wake_sender(self) except -1:
        """End the sender's sleep, if it sleeps; built-ins only."""
        # Held here: what it writes to is open for as long as somebody holds it.
        wake = self.wake
        # Cleared first: cleared after the call it could undo the sender's next falling asleep.
        self.sender_sleeps = False
        if wake is not None:
            try:
                wake()
            except OSError:
                # Full: it will wake. Closed: there is nobody to wake.
                pass
        return 0
