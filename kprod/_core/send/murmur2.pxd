from libc.stdint cimport int32_t, uint32_t

cdef uint32_t murmur2_bytes(const unsigned char* key, Py_ssize_t size) noexcept nogil
