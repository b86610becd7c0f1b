# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Partitions' queues as sending threads see them: opening, extending and sealing their batches.

A record goes into its partition's open batch (`kprod._core.send.send_path`). If there is no open
batch or it lacks memory, this module prepares the append: it takes memory, waits for it if the
caller may wait, opens or extends the batch, and posts the queue to the sender's inbox.

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
    """Take a number of chunks from the pool; None if it has fewer now."""
    cdef list chunks = []
    cdef Chunk chunk = None
    try:
        while PyList_GET_SIZE(chunks) < chunk_count:
            chunk = pool.try_take(large)
            if chunk is None:
                # Two sends that kept chunks while they wait for more could deadlock.
                pool.give_back_chunks(chunks)
                return None
            chunks.append(chunk)
            chunk = None
    except MemoryError:
        if chunk is not None:
            pool.put_away(chunk)
        pool.give_back_chunks(chunks)
        raise
    return chunks


cdef class PartitionAppender:
    """One partition's queue as the send path sees it: its batches, of which the last may be open.

    Attributes:
        batches: A deque of the batches that are not done, oldest first.
        builder: The open batch's builder; None if no batch takes records.
        result: The open batch's shared result.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.batches = deque()

    def open(self, batch) -> bool:
        """Append a new batch to the queue; records go into it from now on.

        Args:
            batch: An object with a `builder` and a `result`.

        Returns:
            False if another thread has opened one meanwhile; then nothing changes.
        """
        return self.enter(batch, None)

    cdef bint enter(self, object batch, BatchOpener opener) except -1:
        """Open a batch as `open` does; return False also if the opener now rejects records."""
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
        """Close the open batch for further records."""
        cdef BatchBuilder builder
        with cython.critical_section(self):
            builder = self.builder
            self.builder = None
            self.result = None
        if builder is not None:
            builder.seal()


cdef class TopicRoutes:
    """A topic as the send path needs it: its partitions' queues and the sticky partition.

    Attributes:
        queues: One `PartitionAppender` for each partition, by number; never shrinks.
        partition_count: The current number of partitions.
        sticky: The current partition of records without key and partition.
        turns: Partitions that take turns, if the producer uses turns; all if empty.
    """

    def __init__(self, str name not None, list queues not None):
        self.name = name
        self.queues = queues
        self.partition_count = len(queues)
        self.turns = []


cdef class ReservedChunks:
    """Memory reserved for a send that must not wait, and the memory that it lacked.

    Attributes:
        chunks: Lent by the pool; a send that needs memory uses all of them, if they are enough.
        missing_count: Number of chunks that the latest failed send lacked.
        missing_large: Whether these were large chunks.
    """

    def __init__(self):
        self.chunks = []

    cdef list fill(self, ChunkPool pool, Py_ssize_t missing_bytes, bint large):
        """Use the reserved chunks, else the pool's; if it has too few, note them, return None."""
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
    """Opens, extends and seals batches, and posts queues to the sender.

    Args:
        hooks: Creates batches, waits for memory, chooses the sticky partition.
        pool: Lends chunks.
        clock: Clock for waits.
        inbox: A deque where partitions with a new or full batch are posted for the sender.

    Attributes:
        closed_error: Creates the error of a producer that takes no more records; None while it
            takes records.
        sender_sleeps: Whether the sender must be woken for a posted queue.
        wake: Ends the sender's sleep.
        direct_path: May send a posted queue while the sender sleeps; None if there is none.
    """

    def __cinit__(self, *_, **__):
        # Records are accepted only once a subclass's constructor has cleared this.
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
        """Take memory or close a full batch, so that a failed append can be retried.

        Returns False if the request must not wait, and there is no memory.
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
            # Enough for the whole record: a send that opened a batch and then waited for more
            # would hold memory that other sends need.
            is_small = request.bound_bytes <= self._pool.small_chunk_bytes
            chunks = self._take_for(request, request.bound_bytes, not is_small)
            if chunks is not None:
                self._open(queue, chunks)
            return chunks is not None
        raise self.closed_error()

    cdef int _seal_full(self, PartitionAppender queue, BatchBuilder builder) except -1:
        """Close a full batch for further records, unless another thread has, and post it."""
        with cython.critical_section(queue):
            if queue.builder is not builder:
                return 0
            queue.builder = None
            queue.result = None
        builder.seal()
        self._post(queue)
        return 0

    cdef int _extend(self, PartitionAppender queue, list chunks) except -1:
        """Extend the open batch by all chunks or none."""
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
        # The batch was drained meanwhile, and its successor may need more chunks than these. Two
        # sends that kept theirs and waited for the rest could deadlock.
        self._pool.give_back_chunks(chunks)
        return 0

    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms):
        """Take chunks of at least `missing_bytes` together, all or none, waiting if necessary."""
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
            pool.add_waiter(waiter)
            self.hooks.wait_for_memory(waiter, self._max_block_ms - waited_ms[0])
            chunks = pool.claim(waiter)
        finally:
            pool.remove_waiter(waiter)
        waited_ms[0] += self._clock.now_ms() - started_ms
        return chunks

    cdef list _take_for(self, AppendRequest* request, Py_ssize_t missing_bytes, bint large):
        """Take chunks as `_take` does; None for a request that must not wait, if there are none."""
        if request.reserved == NULL:
            return self._take(missing_bytes, large, &request.waited_ms)
        return (<ReservedChunks>request.reserved).fill(self._pool, missing_bytes, large)

    cdef int _open(self, PartitionAppender queue, list chunks) except -1:
        """Open a batch on these chunks; unless it then owns them, return them to the pool."""
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
        """Notify the sender: wake it if it sleeps and the direct path does not send the batch.

        This calls only compiled code and built-ins (a deque and a socket): no bytecode runs between
        an append and the return of its future, and so no signal handler runs.
        """
        self.inbox.append(queue)
        if self.sender_sleeps:
            if self.direct_path is None or not self.direct_path.send(queue):
                self.wake_sender()
        return 0

    cpdef int wake_sender(self) except -1:
        """End the sender's sleep, if it sleeps; uses built-ins only."""
        # The local reference keeps the descriptor that `wake` writes to open.
        wake = self.wake
        # Cleared before the call: afterwards, it could undo the flag of the sender's next sleep.
        self.sender_sleeps = False
        if wake is not None:
            try:
                wake()
            except OSError:
                # Full: the sender wakes anyway. Closed: there is no sender to wake.
                pass
        return 0
