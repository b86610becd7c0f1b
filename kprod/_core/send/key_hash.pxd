from libc.stdint cimport uint32_t


cpdef enum KeyHash:
    MURMUR2 = 0
    CRC32 = 1
    FNV1A = 2


cdef uint32_t hash_key(KeyHash kind, const unsigned char* key, Py_ssize_t size) noexcept nogil
