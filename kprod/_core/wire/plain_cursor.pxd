# cython: language_level=3, cdivision=True
# A cursor over the bytes of a response, for the readers that take the plain form of a response in
# one pass; inline only, so there is no .pyx. A reader checks `is_lost` at its end: after a field
# that is not plain, or past the last byte, every further field is 0.
#
# Source: Kafka's protocol guide, "Protocol primitive types"; KIP-482.

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t

from kprod._core.endian cimport load_int16, load_int32, load_int64

cdef extern from "Python.h":
    object _PyLong_FromByteArray(const unsigned char*, size_t, bint little, bint signed)

cdef enum:
    TOPIC_ID_BYTES = 16
    UVARINT_BITS_MAX = 28  # bits of a length or count; no frame is longer


cdef struct Cursor:
    const unsigned char* at
    const unsigned char* end
    # The bytes are not a plain response.
    bint is_lost


# Skip a number of bytes; if there are fewer, mark the cursor as lost and return False.
cdef inline bint skip(Cursor* cursor, Py_ssize_t size_bytes) noexcept:
    if cursor.is_lost or size_bytes < 0 or cursor.end - cursor.at < size_bytes:
        cursor.is_lost = True
        return False
    cursor.at += size_bytes
    return True


cdef inline unsigned char take_byte(Cursor* cursor) noexcept:
    return (cursor.at - 1)[0] if skip(cursor, 1) else 0


cdef inline int16_t take_int16(Cursor* cursor) noexcept:
    return load_int16(cursor.at - 2) if skip(cursor, sizeof(int16_t)) else 0


cdef inline int32_t take_int32(Cursor* cursor) noexcept:
    return load_int32(cursor.at - 4) if skip(cursor, sizeof(int32_t)) else 0


cdef inline int64_t take_int64(Cursor* cursor) noexcept:
    return load_int64(cursor.at - 8) if skip(cursor, sizeof(int64_t)) else 0


cdef inline int64_t take_uvarint(Cursor* cursor) noexcept:
    cdef int64_t number = 0
    cdef int shift = 0
    cdef unsigned char byte = 0x80
    while byte & 0x80:
        if shift > UVARINT_BITS_MAX:
            cursor.is_lost = True
            return 0
        byte = take_byte(cursor)
        number |= <int64_t>(byte & 0x7F) << shift
        shift += 7
    return number


# Read a length: plain, or compact, which starts from 1.
cdef inline Py_ssize_t take_count(Cursor* cursor, bint flexible) noexcept:
    cdef int64_t count
    if flexible:
        count = take_uvarint(cursor) - 1
    else:
        count = take_int32(cursor)
    if count < 0:
        cursor.is_lost = True
    return 0 if cursor.is_lost else <Py_ssize_t>count


cdef inline void expect_no_tags(Cursor* cursor, bint flexible) noexcept:
    if flexible and take_byte(cursor) != 0:
        cursor.is_lost = True


# Read a topic's id as an integer, or its name; None, and the cursor lost, if it is neither.
cdef inline object take_topic(Cursor* cursor, bint by_id, bint flexible):
    cdef const unsigned char* start = cursor.at
    cdef Py_ssize_t size_bytes
    if by_id:
        skip(cursor, TOPIC_ID_BYTES)
        return None if cursor.is_lost else _PyLong_FromByteArray(
            start, TOPIC_ID_BYTES, False, False)
    size_bytes = take_count(cursor, True) if flexible else take_int16(cursor)
    start = cursor.at
    skip(cursor, size_bytes)
    if cursor.is_lost:
        return None
    try:
        return PyUnicode_DecodeUTF8(<const char*>start, size_bytes, NULL)
    except UnicodeDecodeError:
        cursor.is_lost = True
        return None
