cdef class Chunk:
    cdef unsigned char* memory
    cdef readonly Py_ssize_t capacity_bytes


cdef class ChunkPart:
    cdef Chunk chunk
    cdef unsigned char* memory
    cdef readonly Py_ssize_t size_bytes


cdef ChunkPart part_of(Chunk chunk, Py_ssize_t start, Py_ssize_t end)
