# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The uncompressed size that a compressed block's framing declares, found before decompression.

Most batches have the form that Kafka's writers produce: one block of snappy in a xerial stream, or
one lz4 frame with Kafka's fixed header. Recognizing that form in interpreted Python would take a
sixth of the time of decompressing 16 KB; here it takes a hundredth. All other forms are left to the
slower readers, which also report faults in them.

Thread-safety: any thread; there is no state.
Source: xerial SnappyOutputStream; google/snappy format_description.txt (2011-10-05);
lz4_Frame_format.md 1.6.1; Kafka Lz4BlockOutputStream (clients 4.3.1).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from kprod._core.endian cimport load_int32

cdef enum:
    NOT_PLAIN = -1

    XERIAL_MAGIC_BYTES = 8
    # Magic number and two version numbers. They are not checked: some writers use little endian.
    XERIAL_HEADER_BYTES = 16
    XERIAL_LENGTH_BYTES = 4
    DECLARED_BITS_MAX = 32
    # A copy element of 3 bytes yields 64 bytes: 21.3 : 1, rounded up.
    SNAPPY_EXPANSION_MAX = 22

    LZ4_HEADER_BYTES = 7
    LZ4_SIZE_BYTES = 4
    LZ4_BLOCK_BYTES_MAX = 0x10000
    LZ4_SIZE_MASK = 0x7FFFFFFF  # the highest bit marks a block that is stored uncompressed

cdef const unsigned char* XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Magic number, version 1 with independent blocks of 64 KiB, and the header's checksum.
cdef const unsigned char* LZ4_KAFKA_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"


def snappy_block_bytes(payload):
    """Find the uncompressed size that a xerial stream of one block declares.

    Args:
        payload: Any bytes-like.

    Returns:
        The size, at least 0 and at most as much as the compressed bytes can yield; −1 if `payload`
        is not a xerial stream of one block that declares such a size.

    Raises:
        TypeError: `payload` is not bytes-like.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return declared_by_snappy(<const unsigned char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def lz4_frame_bytes_max(payload):
    """Find how large the contents of an lz4 frame with Kafka's header can be.

    Args:
        payload: Any bytes-like.

    Returns:
        64 KiB for each block; −1 if `payload` is not exactly one frame with Kafka's header and an
        end mark.

    Raises:
        TypeError: `payload` is not bytes-like.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return bound_of_lz4(<const unsigned char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef long long declared_by_snappy(const unsigned char* at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t position = XERIAL_HEADER_BYTES + XERIAL_LENGTH_BYTES
    cdef Py_ssize_t block_bytes = size - position
    cdef uint64_t declared = 0
    cdef int shift = 0
    if block_bytes < 0 or memcmp(at, XERIAL_MAGIC, XERIAL_MAGIC_BYTES) != 0:
        return NOT_PLAIN
    if load_int32(at + <int>XERIAL_HEADER_BYTES) != block_bytes:
        return NOT_PLAIN
    while position < size and shift < DECLARED_BITS_MAX:
        declared |= <uint64_t>(at[position] & 0x7F) << shift
        if at[position] < 0x80:
            if declared > <uint64_t>block_bytes * SNAPPY_EXPANSION_MAX:
                return NOT_PLAIN
            return <long long>declared
        position += 1
        shift += 7
    return NOT_PLAIN


cdef long long bound_of_lz4(const unsigned char* at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t position = LZ4_HEADER_BYTES
    cdef long long block_count = 0
    cdef uint32_t block_bytes
    if size < LZ4_HEADER_BYTES or memcmp(at, LZ4_KAFKA_HEADER, LZ4_HEADER_BYTES) != 0:
        return NOT_PLAIN
    # A block takes at least 4 bytes, so the loop ends.
    while size - position >= LZ4_SIZE_BYTES:
        block_bytes = (
            at[position] | <uint32_t>at[position + 1] << 8
            | <uint32_t>at[position + 2] << 16 | <uint32_t>at[position + 3] << 24
        )
        position += LZ4_SIZE_BYTES
        if block_bytes == 0:
            return block_count * LZ4_BLOCK_BYTES_MAX if position == size else NOT_PLAIN
        block_bytes &= <uint32_t>LZ4_SIZE_MASK
        if <Py_ssize_t>block_bytes > size - position:
            return NOT_PLAIN
        position += block_bytes
        block_count += 1
    return NOT_PLAIN
