from kprod._core.memory.chunk_pool cimport ChunkChain


cdef class CompressionBuffer:
    cdef bytearray _memory

    cdef object filled(self, ChunkChain chain, Py_ssize_t piece_count, const unsigned char* end)
