# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Zigzag base-128 integers, as the V2 record format has them.

Compiled modules use the inline functions of `varint.pxd`; the functions here are those, made
callable for tests and tools. The unsigned varints of the flexible protocol versions are another
encoding and live in the protocol's primitives.

Thread-safety: pure functions.
Source: Kafka ByteUtils (clients 4.3.1); Protocol Buffers' zigzag encoding.
"""

from libc.stdint cimport int32_t, int64_t

from kprod._core.layout cimport VARINT_BYTES_MAX, VARLONG_BYTES_MAX

from kprod.errors import CorruptRecord


def encode_varint(int32_t value) -> bytes:
    """Encode a 32-bit integer in 1 to 5 bytes."""
    cdef unsigned char scratch[<int>VARINT_BYTES_MAX]
    cdef unsigned char* end = put_varint(scratch, value)
    return scratch[:end - scratch]


def encode_varlong(int64_t value) -> bytes:
    """Encode a 64-bit integer in 1 to 10 bytes."""
    cdef unsigned char scratch[<int>VARLONG_BYTES_MAX]
    cdef unsigned char* end = put_varlong(scratch, value)
    return scratch[:end - scratch]


def decode_varint(const unsigned char[::1] buffer not None) -> tuple[int, int]:
    """Decode a 32-bit integer from the front of a buffer.

    Returns:
        The value and the number of bytes it took.

    Raises:
        CorruptRecord: The buffer ends inside the number, or the number needs more than 32 bits.
    """
    cdef int32_t value = 0
    cdef const unsigned char* start = &buffer[0] if buffer.shape[0] else NULL
    cdef const unsigned char* end = take_varint(start, start + buffer.shape[0], &value)
    if end == NULL:
        raise CorruptRecord(
            f"no 32-bit varint in the first {buffer.shape[0]} bytes; at most 5 are allowed"
        )
    return value, end - start


def decode_varlong(const unsigned char[::1] buffer not None) -> tuple[int, int]:
    """Decode a 64-bit integer from the front of a buffer.

    Returns:
        The value and the number of bytes it took.

    Raises:
        CorruptRecord: The buffer ends inside the number, or the number needs more than 64 bits.
    """
    cdef int64_t value = 0
    cdef const unsigned char* start = &buffer[0] if buffer.shape[0] else NULL
    cdef const unsigned char* end = take_varlong(start, start + buffer.shape[0], &value)
    if end == NULL:
        raise CorruptRecord(
            f"no 64-bit varint in the first {buffer.shape[0]} bytes; at most 10 are allowed"
        )
    return value, end - start
