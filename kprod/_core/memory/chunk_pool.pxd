from libc.stdint cimport int64_t

from kprod._core.memory.chunk cimport Chunk
from kprod._core.memory.memory_waiter cimport MemoryWaiter


cdef struct Piece:
    unsigned char* memory
    Py_ssize_t capacity_bytes


cdef class ChunkPool:
    cdef readonly int64_t capacity_bytes
    cdef readonly int64_t lent_bytes
    cdef readonly int64_t cached_bytes
    cdef readonly Py_ssize_t small_chunk_bytes
    cdef readonly Py_ssize_t large_chunk_bytes
    cdef readonly bint poisons
    # True while the queue has waiters; then no other request may take memory.
    cdef readonly bint has_waiters
    cdef readonly bint closed
    cdef list _small
    cdef list _large
    cdef list _queue
    # Waiters that have been granted all their bytes and have not left.
    cdef list _satisfied
    cdef Chunk try_take(self, bint large)
    cdef Chunk make(self, bint large, int64_t granted_bytes=*)
    cdef int put_away(self, Chunk chunk) except -1
    cdef int give_back_chunks(self, list chunks) except -1
    cpdef int add_waiter(self, MemoryWaiter waiter) except -1
    cpdef int remove_waiter(self, MemoryWaiter waiter) except -1
    cpdef list claim(self, MemoryWaiter waiter)
    cdef list _serve_queue(self)


cdef class ChunkChain:
    cdef readonly ChunkPool pool
    cdef readonly Py_ssize_t lent_bytes
    cdef readonly int holder_count
    cdef list _chunks
    # The chunks' memory, by index; as many entries as there are chunks.
    cdef Piece* pieces
    cdef readonly Py_ssize_t piece_count
    cdef Py_ssize_t _piece_room
    cdef int add(self, Chunk chunk) except -1
    cdef int trim(self, Py_ssize_t piece_count) except -1
