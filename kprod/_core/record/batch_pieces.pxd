from kprod._core.memory.chunk_pool cimport ChunkChain


cdef list chunk_parts(ChunkChain chain, const unsigned char* end)
cdef unsigned int checksum_of(list pieces) except? 0
