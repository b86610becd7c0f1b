# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Pooled memory: chunks of two sizes out of one total, lent to batches as chains.

Why two sizes. A batch starts with a small chunk, so that ten thousand quiet partitions are cheap,
and continues in large ones, so that a busy partition is sent in few pieces.

Why holders. A chain may be needed by its batch and by requests that carry it. A batch can be done
for its user while a socket still reads its bytes. If the memory were lent again then, another
topic's records would be sent in place of the batch, with a valid checksum. So the batch and each
request hold the chain, and all of it returns to the pool when the last holder releases it.

Invariants.
    lent_bytes <= capacity_bytes, always.
    lent_bytes + cached_bytes <= capacity_bytes: the free lists keep no memory beyond the total.
    A waiter's granted bytes count as lent, and it leaves the queue on every path. A waiter that has
    been granted all its bytes is in `_satisfied` until it leaves.

Thread-safety: `ChunkPool` from any thread; its fields change inside its own critical section. A
    `ChunkChain` belongs to the threads that may append to its batch, then to the sender.
Source: Kafka BufferPool (clients 4.3.1); KAFKA-19012 for the holders; KIP-1332 for small pieces.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int64_t
from libc.string cimport memset

from kprod._core.memory.chunk cimport Chunk
from kprod._core.collector cimport untrack
from kprod._core.memory.memory_waiter cimport MemoryWaiter, wake_waiters

from kprod.errors import LocalProtocolError

cdef enum:
    # This byte on the wire or in a log shows that freed memory was sent.
    POISON = 0xDD
    FIRST_PIECE_ROOM = 4


cdef class ChunkPool:
    """A fixed amount of memory, lent out as chunks while there is some.

    A request for more than there is waits in a queue, as a `MemoryWaiter`. The first waiter gets
    every returned byte until it is satisfied; otherwise one large request could starve behind a
    stream of small ones. The queue is kept here, in compiled code, so that an exception raised by
    a signal handler can interrupt a wait but never the bookkeeping.

    Args:
        capacity_bytes: The total, at least one large chunk.
        small_chunk_bytes: First chunk of a batch.
        large_chunk_bytes: Every further chunk.
        poisons: Fill returned memory with a pattern, so that use after return is visible.

    Raises:
        ValueError: The sizes do not fit together.
    """

    def __init__(
        self, int64_t capacity_bytes, *, Py_ssize_t small_chunk_bytes=2048,
        Py_ssize_t large_chunk_bytes=16384,
        bint poisons=False,
    ):
        if not 64 <= small_chunk_bytes <= large_chunk_bytes <= capacity_bytes:
            raise ValueError(
                f"a pool needs 64 <= small_chunk_bytes <= large_chunk_bytes <= capacity_bytes,"
                f" got {small_chunk_bytes}, {large_chunk_bytes}, {capacity_bytes}"
            )
        self.capacity_bytes = capacity_bytes
        self.small_chunk_bytes = small_chunk_bytes
        self.large_chunk_bytes = large_chunk_bytes
        self.poisons = poisons
        self._small = []
        self._large = []
        self._queue = []
        self._satisfied = []

    @property
    def available_bytes(self):
        """Bytes that could be lent now."""
        return self.capacity_bytes - self.lent_bytes

    cdef Chunk try_take(self, bint large):
        """Lend a chunk; None if the rest of the total is too small or anyone is queued."""
        cdef Py_ssize_t size = self.large_chunk_bytes if large else self.small_chunk_bytes
        cdef Chunk chunk
        with cython.critical_section(self):
            if self.has_waiters or self.lent_bytes + size > self.capacity_bytes:
                return None
            chunk = self.make(large)
            self.lent_bytes += size
            return chunk

    cdef Chunk make(self, bint large, int64_t granted_bytes=0):
        """Return a chunk; the caller counts it as lent, or its size was granted before."""
        cdef Py_ssize_t size = self.large_chunk_bytes if large else self.small_chunk_bytes
        cdef list free = self._large if large else self._small
        cdef list other = self._small if large else self._large
        if free:
            self.cached_bytes -= size
            return <Chunk>free.pop()
        cdef int64_t used_bytes = self.lent_bytes - granted_bytes + size
        while other and used_bytes + self.cached_bytes > self.capacity_bytes:
            self.cached_bytes -= (<Chunk>other.pop()).capacity_bytes
        return Chunk(size)

    cdef int put_away(self, Chunk chunk) except -1:
        """Return one lent chunk to its free list."""
        if self.poisons:
            memset(chunk.memory, POISON, chunk.capacity_bytes)
        with cython.critical_section(self):
            self.lent_bytes -= chunk.capacity_bytes
            if self.closed:
                return 0
            try:
                if chunk.capacity_bytes == self.large_chunk_bytes:
                    self._large.append(chunk)
                else:
                    self._small.append(chunk)
            except MemoryError:
                return 0  # the chunk is freed instead: the rest of its chain must still return
            self.cached_bytes += chunk.capacity_bytes
        return 0

    cpdef int add_waiter(self, MemoryWaiter waiter) except -1:
        """Append a waiter to the queue for memory."""
        cdef list settled = None
        with cython.critical_section(self):
            if self.closed:
                waiter.settle(True)
                settled = [waiter]
            else:
                self._queue.append(waiter)
                self.has_waiters = True
                settled = self._serve_queue()
        return wake_waiters(settled)

    cpdef int remove_waiter(self, MemoryWaiter waiter) except -1:
        """Remove a waiter from the queue, and free its granted bytes that it has not claimed."""
        cdef list settled
        with cython.critical_section(self):
            if waiter in self._queue:
                self._queue.remove(waiter)
            elif waiter in self._satisfied:
                self._satisfied.remove(waiter)
            self.lent_bytes -= waiter.granted_bytes
            waiter.granted_bytes = 0
            settled = self._serve_queue()
        return wake_waiters(settled)

    cpdef list claim(self, MemoryWaiter waiter):
        """Turn a satisfied waiter's bytes into chunks, all or none."""
        cdef list chunks = []
        cdef Chunk chunk
        try:
            with cython.critical_section(self):
                while waiter.granted_bytes > 0:
                    chunk = self.make(waiter.large, waiter.granted_bytes)
                    waiter.granted_bytes -= chunk.capacity_bytes
                    chunks.append(chunk)
        except MemoryError:
            # The rest of the grant is freed when the waiter leaves the queue.
            self.give_back_chunks(chunks)
            raise
        return chunks

    cdef list _serve_queue(self):
        """Grant all available bytes to the first waiter until it is satisfied, then to the next.

        Returns the satisfied waiters, for the caller to wake outside the critical section, or None.
        """
        cdef list settled = None
        cdef MemoryWaiter first
        cdef int64_t grant
        while self._queue:
            first = <MemoryWaiter>self._queue[0]
            grant = min(
                first.wanted_bytes - first.granted_bytes, self.capacity_bytes - self.lent_bytes
            )
            self.lent_bytes += grant
            first.granted_bytes += grant
            if first.granted_bytes < first.wanted_bytes:
                break
            if settled is None:
                settled = []
            settled.append(first)
            self._satisfied.append(first)
            del self._queue[0]
            first.settle(False)
        self.has_waiters = bool(self._queue)
        return settled

    def pass_on(self) -> None:
        """Free the grants of waiters that cannot claim them now, for the next waiters."""
        cdef MemoryWaiter waiter
        for waiter in list(self._satisfied):
            if waiter.is_away():
                self.remove_waiter(waiter)

    @property
    def waiter_count(self):
        """Number of waiters in the queue."""
        return len(self._queue)

    def close(self) -> None:
        """Wake all waiters, without memory; later ones are woken as soon as they join the queue.

        Lent memory can still be returned; the pool keeps none of it.
        """
        cdef list waiters
        with cython.critical_section(self):
            self.closed = True
            self._small = []
            self._large = []
            self.cached_bytes = 0
            waiters = self._queue
            self._queue = []
            self.has_waiters = False
            for waiter in waiters:
                (<MemoryWaiter>waiter).settle(True)
        wake_waiters(waiters)

    def try_chain(self, bint large=False):
        """Lend a chain of one chunk; None if memory is short or anyone is queued."""
        cdef Chunk chunk = self.try_take(large)
        if chunk is None:
            return None
        return ChunkChain(self, [chunk])

    def try_chunk(self, bint large=True):
        """Lend a chunk; None if memory is short or anyone is queued."""
        return self.try_take(large)

    def give_back(self, list chunks not None) -> None:
        """Take back chunks that belong to no chain."""
        self.give_back_chunks(chunks)

    cdef int give_back_chunks(self, list chunks) except -1:
        cdef list settled
        cdef Chunk chunk
        for chunk in chunks:
            self.put_away(chunk)
        if self.has_waiters:
            with cython.critical_section(self):
                settled = self._serve_queue()
            return wake_waiters(settled)
        return 0


@cython.no_gc
cdef class ChunkChain:
    """The memory of one batch: its chunks in order, and the number of holders.

    A new chain has one holder, its batch. No reference cycle goes through a chain, so the garbage
    collector does not track it.

    Args:
        pool: The pool that lent the chunks, and to which they return.
        chunks: At least one.
    """

    def __cinit__(self, ChunkPool pool not None, list chunks not None):
        self.pool = pool
        self._chunks = []
        # Chunks refer to nothing, so the collector need not traverse a list of them per batch.
        untrack(self._chunks)
        self._piece_room = FIRST_PIECE_ROOM
        self.pieces = <Piece*>PyMem_Malloc(self._piece_room * sizeof(Piece))
        if self.pieces == NULL:
            raise MemoryError("no memory for a chain's index")
        self.holder_count = 1
        for chunk in chunks:
            self.add(<Chunk?>chunk)

    def __dealloc__(self):
        PyMem_Free(self.pieces)

    cdef int add(self, Chunk chunk) except -1:
        cdef Piece* grown
        if self.piece_count == self._piece_room:
            grown = <Piece*>PyMem_Realloc(self.pieces, 2 * self._piece_room * sizeof(Piece))
            if grown == NULL:
                raise MemoryError("no memory for a chain's index")
            self.pieces = grown
            self._piece_room *= 2
        self._chunks.append(chunk)
        self.pieces[self.piece_count].memory = chunk.memory
        self.pieces[self.piece_count].capacity_bytes = chunk.capacity_bytes
        self.piece_count += 1
        self.lent_bytes += chunk.capacity_bytes
        return 0

    cdef int trim(self, Py_ssize_t piece_count) except -1:
        """Return the chunks after the first `piece_count` to the pool."""
        cdef list spare = self._chunks[piece_count:]
        cdef Chunk chunk
        if not spare:
            return 0
        del self._chunks[piece_count:]
        self.piece_count = piece_count
        for chunk in spare:
            self.lent_bytes -= chunk.capacity_bytes
        self.pool.give_back_chunks(spare)
        return 0

    def chunks(self) -> list[Chunk]:
        """Return the chunks in order; each is a read-only buffer of its whole length."""
        return list(self._chunks)

    def hold(self) -> None:
        """Add a holder; the chain stays lent until each holder has called `release`.

        Raises:
            LocalProtocolError: The chain has already returned to its pool.
        """
        if self.holder_count == 0:
            raise LocalProtocolError("a chunk chain was held after it had gone back to its pool")
        self.holder_count += 1

    def release(self) -> None:
        """Remove a holder; the last one returns all chunks to the pool.

        Raises:
            LocalProtocolError: Every holder has already released the chain.
        """
        cdef list chunks
        if self.holder_count == 0:
            raise LocalProtocolError("a chunk chain was released twice")
        self.holder_count -= 1
        if self.holder_count == 0:
            chunks = self._chunks
            self._chunks = []
            self.piece_count = 0
            self.lent_bytes = 0
            self.pool.give_back_chunks(chunks)
