from libc.stdint cimport int64_t


cdef struct Piece:
    unsigned char* memory
    Py_ssize_t capacity_bytes


cdef class Chunk:
    cdef unsigned char* memory
    cdef readonly Py_ssize_t capacity_bytes


cdef class ChunkPool:
    cdef readonly int64_t capacity_bytes
    cdef readonly int64_t lent_bytes
    cdef readonly int64_t cached_bytes
    cdef readonly Py_ssize_t small_chunk_bytes
    cdef readonly Py_ssize_t large_chunk_bytes
    cdef readonly bint poisons
    # Set while someone waits for memory: nobody may overtake on the compiled path.
    cdef public bint has_waiters
    cdef list _small
    cdef list _large
    cdef Chunk try_take(self, bint large)
    cdef Chunk make(self, bint large)
    cdef int put_away(self, Chunk chunk) except -1


cdef class ChunkChain:
    cdef readonly ChunkPool pool
    cdef readonly Py_ssize_t lent_bytes
    cdef readonly int holder_count
    cdef list _chunks
    cdef Piece* pieces
    cdef readonly Py_ssize_t piece_count
    cdef Py_ssize_t _piece_room
    cdef int add(self, Chunk chunk) except -1
    cdef int trim(self, Py_ssize_t piece_count) except -1
