# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A pooled piece of memory, and a part of one, as buffers for sockets and checksums to read.

A chunk refers to no other object, so no reference cycle goes through it and the garbage collector
does not track it.

Thread-safety: no locks here; only the batch that holds a chunk may write its bytes.
Source: Kafka BufferPool (clients 4.3.1), whose ByteBuffers correspond to chunks.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.mem cimport PyMem_Free, PyMem_Malloc


@cython.no_gc
@cython.final
cdef class Chunk:
    """A pooled piece of memory. It exposes its whole length as a read-only buffer.

    The memory comes from Python's allocator, so that tracemalloc counts it.
    """

    def __cinit__(self, Py_ssize_t capacity_bytes):
        self.memory = <unsigned char*>PyMem_Malloc(capacity_bytes)
        if self.memory == NULL:
            raise MemoryError(f"no memory for a chunk of {capacity_bytes} bytes")
        self.capacity_bytes = capacity_bytes

    def __dealloc__(self):
        PyMem_Free(self.memory)

    def __len__(self):
        return self.capacity_bytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.capacity_bytes, 1, flags)

    def __releasebuffer__(self, Py_buffer* view):
        pass


@cython.no_gc
@cython.final
cdef class ChunkPart:
    """Consecutive bytes of a chunk, as a read-only buffer that keeps the chunk alive.

    A `memoryview` of them would be three objects for the garbage collector to traverse.
    """

    def __init__(self):
        raise TypeError("a ChunkPart is made by a BatchBuilder")

    def __len__(self):
        return self.size_bytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.size_bytes, 1, flags)

    def __releasebuffer__(self, Py_buffer* view):
        pass


cdef ChunkPart part_of(Chunk chunk, Py_ssize_t start, Py_ssize_t end):
    """Return the bytes from `start` up to `end`; both must lie within the chunk."""
    cdef ChunkPart part = ChunkPart.__new__(ChunkPart)
    part.chunk = chunk
    part.memory = chunk.memory + start
    part.size_bytes = end - start
    return part
