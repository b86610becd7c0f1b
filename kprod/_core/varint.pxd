# Zigzag base-128 integers of the record format (V2), and the unsigned ones of the flexible protocol
# versions; inline only, so there is no .pyx.
#
# Source: Kafka ByteUtils (clients 4.3.1); Protocol Buffers' zigzag encoding.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef inline uint32_t zigzag32(int32_t value) noexcept nogil:
    return (<uint32_t>value << 1) ^ <uint32_t>(value >> 31)


cdef inline uint64_t zigzag64(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef extern from *:
    int __builtin_clzll(unsigned long long bits) noexcept nogil


cdef inline int unsigned_size(uint64_t bits) noexcept nogil:
    # Seven bits per byte, rounded up, without a division; correct for 1 to 64 significant bits. In
    # this form compilers emit one bit scan, a multiplication by 9, an addition and a shift.
    return (9 * (63 ^ __builtin_clzll(bits | 1)) + 73) >> 6


cdef inline int varint_size(int32_t value) noexcept nogil:
    return unsigned_size(zigzag32(value))


cdef inline int varlong_size(int64_t value) noexcept nogil:
    return unsigned_size(zigzag64(value))


# The writers return the address of the next byte; the caller has reserved the space. Nearly every
# integer of a record takes one or two bytes, which need no loop.
cdef inline unsigned char* put_unsigned(unsigned char* at, uint64_t bits) noexcept nogil:
    if bits < 0x80:
        at[0] = <unsigned char>bits
        return at + 1
    if bits < 0x4000:
        at[0] = <unsigned char>(bits | 0x80)
        at[1] = <unsigned char>(bits >> 7)
        return at + 2
    while bits >= 0x80:
        at[0] = <unsigned char>(bits | 0x80)
        at += 1
        bits >>= 7
    at[0] = <unsigned char>bits
    return at + 1


cdef inline unsigned char* put_varint(unsigned char* at, int32_t value) noexcept nogil:
    return put_unsigned(at, zigzag32(value))


cdef inline unsigned char* put_varlong(unsigned char* at, int64_t value) noexcept nogil:
    return put_unsigned(at, zigzag64(value))


# The readers never read past `end`. They return NULL if the bytes run out or exceed the width.
cdef inline const unsigned char* take_unsigned(
    const unsigned char* at, const unsigned char* end, int bits_max, uint64_t* bits
) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint64_t group
    cdef int shift = 0
    while at < end:
        group = at[0] & 0x7F
        # The last group may carry only the remaining bits of the width.
        if shift + 7 > bits_max and (group >> (bits_max - shift)) != 0:
            return NULL
        value |= group << shift
        at += 1
        if at[-1] < 0x80:
            bits[0] = value
            return at
        shift += 7
        if shift >= bits_max:
            return NULL
    return NULL


cdef inline const unsigned char* take_varint(
    const unsigned char* at, const unsigned char* end, int32_t* value
) noexcept nogil:
    cdef uint64_t bits = 0
    at = take_unsigned(at, end, 32, &bits)
    value[0] = <int32_t>(<uint32_t>(bits >> 1) ^ <uint32_t>(-<int32_t>(bits & 1)))
    return at


cdef inline const unsigned char* take_varlong(
    const unsigned char* at, const unsigned char* end, int64_t* value
) noexcept nogil:
    cdef uint64_t bits = 0
    at = take_unsigned(at, end, 64, &bits)
    value[0] = <int64_t>((bits >> 1) ^ <uint64_t>(-<int64_t>(bits & 1)))
    return at
