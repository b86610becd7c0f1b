# Big-endian loads and stores for compiled modules; inline only, so there is no .pyx.

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t


cdef inline void store_int16(unsigned char* at, int16_t value) noexcept nogil:
    at[0] = <unsigned char>(value >> 8)
    at[1] = <unsigned char>value


cdef inline void store_int32(unsigned char* at, int32_t value) noexcept nogil:
    at[0] = <unsigned char>(<uint32_t>value >> 24)
    at[1] = <unsigned char>(<uint32_t>value >> 16)
    at[2] = <unsigned char>(<uint32_t>value >> 8)
    at[3] = <unsigned char>value


cdef inline void store_int64(unsigned char* at, int64_t value) noexcept nogil:
    store_int32(at, <int32_t>(<uint64_t>value >> 32))
    store_int32(at + 4, <int32_t>(<uint64_t>value & 0xFFFFFFFFU))


cdef inline int16_t load_int16(const unsigned char* at) noexcept nogil:
    return <int16_t>((<uint32_t>at[0] << 8) | at[1])


cdef inline uint32_t load_uint32(const unsigned char* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int32_t load_int32(const unsigned char* at) noexcept nogil:
    return <int32_t>load_uint32(at)


cdef inline int64_t load_int64(const unsigned char* at) noexcept nogil:
    return <int64_t>((<uint64_t>load_uint32(at) << 32) | load_uint32(at + 4))
