from kprod._core.memory.chunk_pool cimport ChunkChain


cdef list chunk_parts(ChunkChain chain, Py_ssize_t piece_count, const unsigned char* end)
cdef unsigned int checksum_of(list pieces) except? 0
