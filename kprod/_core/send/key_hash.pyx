# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Key hashes under the names of other clients, so that keys keep their partitions in kprod.

The partition is always the hash modulo the number of partitions. Before that, Murmur2 loses its
sign bit, as in Java, and FNV-1a its sign, as in Sarama and librdkafka; CRC-32 is unchanged.

Thread-safety: pure functions. Complexity: O(size).
Source: Kafka BuiltInPartitioner (clients 4.3.1); librdkafka's `consistent` and `fnv1a` partitioners
(2.x); RFC 1952 for CRC-32, draft-eastlake-fnv for FNV-1a.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint32_t

from kprod._core.send.murmur2 cimport murmur2_bytes

cdef enum:
    CRC32_POLYNOMIAL = 0xEDB88320  # bits reversed
    FNV1A_BASIS = 0x811C9DC5
    FNV1A_PRIME = 0x01000193
    SIGN_CLEARED = 0x7FFFFFFF

cdef uint32_t[256] CRC32_TABLE


cdef void _fill_table() noexcept:
    cdef uint32_t remainder
    cdef int byte
    cdef int _bit
    for byte in range(256):
        remainder = <uint32_t>byte
        for _bit in range(8):
            remainder = (remainder >> 1) ^ (<uint32_t>CRC32_POLYNOMIAL if remainder & 1 else 0)
        CRC32_TABLE[byte] = remainder


_fill_table()


cdef uint32_t _crc32(const unsigned char* key, Py_ssize_t size) noexcept nogil:
    cdef uint32_t remainder = 0xFFFFFFFF
    cdef Py_ssize_t index
    for index in range(size):
        remainder = (remainder >> 8) ^ CRC32_TABLE[(remainder ^ key[index]) & 0xFF]
    return ~remainder


cdef uint32_t _fnv1a(const unsigned char* key, Py_ssize_t size) noexcept nogil:
    cdef uint32_t state = FNV1A_BASIS
    cdef Py_ssize_t index
    for index in range(size):
        state = (state ^ key[index]) * <uint32_t>FNV1A_PRIME
    return 0 - state if <int32_t>state < 0 else state


cdef uint32_t hash_key(KeyHash kind, const unsigned char* key, Py_ssize_t size) noexcept nogil:
    """Return a key's hash, to be taken modulo the number of partitions; size −1 counts as 0."""
    if size < 0:
        size = 0
    if kind == KeyHash.CRC32:
        return _crc32(key, size)
    if kind == KeyHash.FNV1A:
        return _fnv1a(key, size)
    return murmur2_bytes(key, size) & <uint32_t>SIGN_CLEARED


def key_hash(int kind, key) -> int:
    """Hash a key.

    Args:
        kind: A `KeyHash`.
        key: Any bytes.

    Returns:
        At least 0; modulo the number of partitions, it is the key's partition.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    try:
        return hash_key(<KeyHash>kind, <const unsigned char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
