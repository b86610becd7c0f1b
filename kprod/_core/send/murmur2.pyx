# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""MurmurHash2, 32 bits, with Kafka's seed: the hash that decides a key's partition.

Thread-safety: pure functions. Complexity: O(size).
Source: Kafka Utils.murmur2 (clients 4.3.1); Austin Appleby's MurmurHash2.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint32_t

cdef enum:
    SEED = 0x9747B28C
    MULTIPLIER = 0x5BD1E995
    ROTATION_BITS = 24


cdef uint32_t murmur2_bytes(const unsigned char* key, Py_ssize_t size) noexcept nogil:
    cdef uint32_t hash_value = <uint32_t>SEED ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t left = size
    while left >= 4:
        word = (
            key[0] | (<uint32_t>key[1] << 8) | (<uint32_t>key[2] << 16) | (<uint32_t>key[3] << 24)
        )
        word *= <uint32_t>MULTIPLIER
        word ^= word >> ROTATION_BITS
        hash_value = (hash_value * <uint32_t>MULTIPLIER) ^ (word * <uint32_t>MULTIPLIER)
        key += 4
        left -= 4
    if left:
        if left == 3:
            hash_value ^= <uint32_t>key[2] << 16
        if left >= 2:
            hash_value ^= <uint32_t>key[1] << 8
        hash_value ^= key[0]
        hash_value *= <uint32_t>MULTIPLIER
    hash_value ^= hash_value >> 13
    hash_value *= <uint32_t>MULTIPLIER
    return hash_value ^ (hash_value >> 15)


def murmur2(key) -> int:
    """Hash a key as Kafka's default partitioner does.

    Returns:
        The hash as a signed 32-bit integer, as in Java. The partition is
        `(hash & 0x7fffffff) % partition_count`.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    try:
        return <int32_t>murmur2_bytes(<const unsigned char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
