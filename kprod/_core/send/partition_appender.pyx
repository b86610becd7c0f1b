# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Partitions' queues as sending threads see them; opens, lengthens and seals their batches.

A record goes into its partition's open batch (`kprod._core.send.send_path`). This module does what
must happen before, when there is no open batch or it has no room: take memory, wait for it if the
caller may wait, open or lengthen the batch, and post the queue to the sender's inbox.

Thread-safety: any thread. `PartitionAppender.builder` and `.result` change together, inside the
    critical section of the `PartitionAppender`.
Source: Kafka RecordAccumulator.append (clients 4.3.1).
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from kprod._core.record.batch_builder cimport BATCH_FULL, NEED_CHUNKS, BatchBuilder
from kprod._core.memory.chunk_pool cimport ChunkChain, ChunkPool
from kprod._core.memory.chunk cimport Chunk
from kprod._core.memory.memory_waiter cimport MemoryWaiter
from kprod._core.clock cimport SystemClock
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.send.send_hooks cimport SendHooks

from collections import deque

from kprod._core.send.send_hooks import not_initialised


cdef list try_take(ChunkPool pool, Py_ssize_t chunk_count, bint large):
    """So many chunks, or None when there are not as many now."""
    cdef list chunks = []
    cdef Chunk chunk
    while PyList_GET_SIZE(chunks) < chunk_count:
        chunk = pool.try_take(large)
        if chunk is None:
            # Two sends that kept chunks while they wait for more could wait for each other.
            pool.give_back_chunks(chunks)
            return None
        chunks.append(chunk)
    return chunks


cdef class PartitionAppender:
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

    cdef bint enter(self, object batch, BatchOpener opener) except -1:
        """As `open`; also False when the opener refuses records by now."""
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        with cython.critical_section(self):
            if self.builder is not None or (opener is not None and opener.closed_error is not None):
                return False
            if opener is not None:
                result.direct_path = opener.direct_path
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


cdef class TopicRoutes:
    """What the send path needs of a topic: its partitions' queues and the sticky partition.

    Attributes:
        queues: One `PartitionAppender` for each partition, by number; never shrinks.
        partition_count: How many of them the topic has now.
        sticky: Where records without key and partition go now.
        turns: Partitions that records go to in turn, where they do; all when empty.
    """

    def __init__(self, str name not None, list queues not None):
        self.name = name
        self.queues = queues
        self.partition_count = len(queues)
        self.turns = []


cdef class ReservedChunks:
    """What a send that must not wait brings along, and what it misses.

    Attributes:
        chunks: Lent by the pool; a send that needs memory uses all of them, if they are enough.
        missing_count: How many chunks the latest send missed that came to nothing.
        missing_large: Whether large ones.
    """

    def __init__(self):
        self.chunks = []

    cdef list fill(self, ChunkPool pool, Py_ssize_t missing_bytes, bint large):
        """Take the reserved chunks, else some of the pool; None if it lacks them, as noted."""
        cdef Py_ssize_t chunk_bytes = pool.large_chunk_bytes if large else pool.small_chunk_bytes
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
        return try_take(pool, self.missing_count, large)


cdef class BatchOpener:
    """Makes room for records: opens, lengthens and seals batches, and posts queues to the sender.

    Args:
        hooks: Makes batches, waits for memory, rolls the sticky partition.
        pool: Lends chunks.
        clock: Measures waits.
        inbox: A deque where partitions with a new or full batch are posted for the sender.

    Attributes:
        closed_error: Makes the error of a producer that takes no more records; None while it does.
        sender_sleeps: Whether the sender must be woken for a posted queue.
        wake: Ends the sender's sleep.
        direct_path: May send a posted queue while the sender sleeps; None if there is none.
    """

    def __cinit__(self, *_, **__):
        # A subclass's constructor lets records in.
        self.closed_error = not_initialised

    def __init__(
        self, SendHooks hooks not None, ChunkPool pool not None, SystemClock clock not None, inbox
    ):
        self.hooks = hooks
        self._pool = pool
        self._clock = clock
        self.inbox = inbox
        self.wake = self.direct_path = None

    cdef bint _make_room(
        self, TopicRoutes routes, PartitionAppender queue, BatchBuilder builder, int outcome,
        AppendRequest* request
    ) except -1:
        """Do what a record that was not appended waits for; then it is tried again.

        False if it must not wait, and there is no memory.
        """
        cdef bint is_small
        cdef list chunks
        if outcome == NEED_CHUNKS:
            chunks = self._take_for(request, builder.missing_bytes, True)
            if chunks is not None:
                self._extend(queue, chunks)
            return chunks is not None
        if outcome == BATCH_FULL:
            self._seal_full(queue, builder)
            if queue.partition == routes.sticky:
                self.hooks.roll_sticky(routes)
            return True
        if outcome == NO_BATCH:
            # Enough for the whole record: who opens a batch and then waits for more would hold
            # memory that another does not get.
            is_small = request.bound_bytes <= self._pool.small_chunk_bytes
            chunks = self._take_for(request, request.bound_bytes, not is_small)
            if chunks is not None:
                self._open(queue, chunks)
            return chunks is not None
        raise self.closed_error()

    cdef int _seal_full(self, PartitionAppender queue, BatchBuilder builder) except -1:
        """Close a full batch for appends, unless another thread has done it, and post it."""
        with cython.critical_section(queue):
            if queue.builder is not builder:
                return 0
            queue.builder = None
            queue.result = None
        builder.seal()
        self._post(queue)
        return 0

    cdef int _extend(self, PartitionAppender queue, list chunks) except -1:
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

    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms):
        """Chunks of at least `missing_bytes` together, all or none; waits in line if it must."""
        cdef ChunkPool pool = self._pool
        cdef Py_ssize_t chunk_bytes = pool.large_chunk_bytes if large else pool.small_chunk_bytes
        cdef Py_ssize_t chunk_count = (missing_bytes + chunk_bytes - 1) // chunk_bytes
        cdef list chunks = try_take(pool, chunk_count, large)
        cdef MemoryWaiter waiter
        cdef int64_t started_ms
        if chunks is not None:
            return chunks
        waiter = MemoryWaiter(chunk_count, large, chunk_bytes)
        started_ms = self._clock.now_ms()
        try:
            pool.join_line(waiter)
            self.hooks.wait_for_memory(waiter, self._max_block_ms - waited_ms[0])
            chunks = pool.claim(waiter)
        finally:
            pool.leave_line(waiter)
        waited_ms[0] += self._clock.now_ms() - started_ms
        return chunks

    cdef list _take_for(self, AppendRequest* request, Py_ssize_t missing_bytes, bint large):
        """As `_take` for a send that may wait; None if it must not, and there are none."""
        if request.reserved == NULL:
            return self._take(missing_bytes, large, &request.waited_ms)
        return (<ReservedChunks>request.reserved).fill(self._pool, missing_bytes, large)

    cdef int _open(self, PartitionAppender queue, list chunks) except -1:
        """Open a batch on these chunks; they go back unless it came to own them."""
        cdef ChunkChain chain
        try:
            chain = ChunkChain(self._pool, chunks)
        except MemoryError:
            self._pool.give_back_chunks(chunks)
            raise
        try:
            batch = self.hooks.make_batch(queue, chain)
            if queue.enter(batch, self):
                return 0
        except BaseException:
            chain.release()
            raise
        chain.release()
        return 0

    cdef int _post(self, PartitionAppender queue) except -1:
        """Tell the sender, and wake it if it sleeps and the direct path does not send the batch.

        Compiled code and built-ins only, a deque and a socket: no bytecode runs between an append
        and the return of its future, so no signal handler does.
        """
        self.inbox.append(queue)
        if self.sender_sleeps:
            if self.direct_path is None or not self.direct_path.send(queue):
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
