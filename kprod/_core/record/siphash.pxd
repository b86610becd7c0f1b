# SipHash-2-4 with 128 bits: a hash with a secret key, under which nobody who does not know the key
# can find two inputs of one hash. Inline only, so there is no .pyx.
#
# Source: Aumasson and Bernstein, SipHash: a fast short-input PRF (2012); their reference for the
# output of 128 bits.

from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    SIPHASH_KEY_BYTES = 16
    COMPRESSION_ROUNDS = 2
    FINALIZATION_ROUNDS = 4
    WORD_BYTES = 8

cdef struct SipState:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef inline uint64_t load_little64(const uint8_t* at) noexcept nogil:
    return (
        <uint64_t>at[0] | <uint64_t>at[1] << 8 | <uint64_t>at[2] << 16 | <uint64_t>at[3] << 24
        | <uint64_t>at[4] << 32 | <uint64_t>at[5] << 40 | <uint64_t>at[6] << 48
        | <uint64_t>at[7] << 56)


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline void sip_rounds(SipState* state, int count) noexcept nogil:
    cdef int _round
    for _round in range(count):
        state.v0 += state.v1
        state.v2 += state.v3
        state.v1 = rotated(state.v1, 13) ^ state.v0
        state.v3 = rotated(state.v3, 16) ^ state.v2
        state.v0 = rotated(state.v0, 32)
        state.v2 += state.v1
        state.v0 += state.v3
        state.v1 = rotated(state.v1, 17) ^ state.v2
        state.v3 = rotated(state.v3, 21) ^ state.v0
        state.v2 = rotated(state.v2, 32)


cdef inline void sip_word(SipState* state, uint64_t word) noexcept nogil:
    state.v3 ^= word
    sip_rounds(state, COMPRESSION_ROUNDS)
    state.v0 ^= word


# Hash `size` bytes; both halves are words of the little-endian result.
cdef inline void siphash128(
    const uint64_t* key, const uint8_t* data, Py_ssize_t size, uint64_t* low, uint64_t* high
) noexcept nogil:
    cdef SipState state
    cdef uint64_t last = <uint64_t>size << 56
    cdef Py_ssize_t at = 0
    cdef int shift = 0
    state.v0 = key[0] ^ <uint64_t>0x736F6D6570736575
    state.v1 = key[1] ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    state.v2 = key[0] ^ <uint64_t>0x6C7967656E657261
    state.v3 = key[1] ^ <uint64_t>0x7465646279746573
    while size - at >= WORD_BYTES:
        sip_word(&state, load_little64(data + at))
        at += WORD_BYTES
    while at < size:
        last |= <uint64_t>data[at] << shift
        shift += 8
        at += 1
    sip_word(&state, last)
    state.v2 ^= 0xEE
    sip_rounds(&state, FINALIZATION_ROUNDS)
    low[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    state.v1 ^= 0xDD
    sip_rounds(&state, FINALIZATION_ROUNDS)
    high[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
