# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The fast reader of Produce responses that accept every batch and say nothing else.

A record that is sent alone waits while its response is read. Nearly every response accepts every
batch and says nothing else; such a response is read here in one pass, without a table. Any other
(an error, a throttle time, a message, a hint of a new leader, a malformed field) is left to the
table-driven codec, which reads and judges it.

Thread-safety: any thread; a function of its arguments.
Source: Kafka's ProduceResponse definition (kafka-clients 4.3.1), KIP-482, KIP-516.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t

from kprod._core.endian cimport load_int16, load_int32, load_int64

cdef enum:
    VERSION_MIN = 3
    LOG_START_FROM = 5
    RECORD_ERRORS_FROM = 8
    FLEXIBLE_FROM = 9
    TOPIC_ID_FROM = 13
    VERSION_MAX = 13
    TOPIC_ID_BYTES = 16
    UVARINT_BITS_MAX = 28  # bits of a length or count; no frame is longer
    COUNT_MAX = 0x7FFFFFFF

# Larger base offsets are left to the codec, so that a record's offset, its batch's base offset plus
# its index, is always below 2⁶³.
cdef int64_t BASE_OFFSET_MAX = 0x7FFFFFFFFFFFFFFF - 0x7FFFFFFF


cdef struct Cursor:
    const unsigned char* at
    const unsigned char* end
    # The bytes are not a plain acknowledgement.
    bint is_lost


def read_acknowledgements(frame, int version, Py_ssize_t count_max=COUNT_MAX):
    """Read a response that accepts every batch and says nothing else.

    Args:
        frame: Header and body, without the size prefix.
        version: Version of the response.
        count_max: Number of partitions in the request.

    Returns:
        For each partition a tuple of the topic's name, or from version 13 on its id as an integer,
        the partition's index, the base offset, and the log append time in milliseconds or −1.
        None for every other response, valid or not, and for one with more partitions.
    """
    cdef Cursor cursor
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef list taken = []
    cdef object topic
    cdef Py_ssize_t topic_count
    cdef Py_ssize_t partition_count
    if not VERSION_MIN <= version <= VERSION_MAX or type(frame) is not bytes:
        return None
    cursor.at = <const unsigned char*>PyBytes_AS_STRING(frame)
    cursor.end = cursor.at + PyBytes_GET_SIZE(frame)
    cursor.is_lost = False
    _skip(&cursor, sizeof(int32_t))  # the correlation id
    _expect_no_tags(&cursor, flexible)
    topic_count = _count(&cursor, flexible)
    while topic_count > 0 and not cursor.is_lost:
        topic_count -= 1
        topic = _topic(&cursor, version)
        partition_count = _count(&cursor, flexible)
        while partition_count > 0 and not cursor.is_lost:
            partition_count -= 1
            if len(taken) >= count_max:
                return None
            acknowledgement = _partition(&cursor, topic, version)
            taken.append(acknowledgement)
        _expect_no_tags(&cursor, flexible)
    if _int32(&cursor) != 0:  # throttle time
        return None
    _expect_no_tags(&cursor, flexible)
    if cursor.is_lost or cursor.at != cursor.end:
        return None
    return taken


cdef tuple _partition(Cursor* cursor, object topic, int version):
    cdef int32_t index = _int32(cursor)
    cdef int64_t base_offset
    cdef int64_t log_append_time_ms
    if _int16(cursor) != 0:  # error code
        cursor.is_lost = True
    base_offset = _int64(cursor)
    log_append_time_ms = _int64(cursor)
    if index < 0 or not -1 <= base_offset <= BASE_OFFSET_MAX or log_append_time_ms < -1:
        cursor.is_lost = True
    if version >= LOG_START_FROM:
        _skip(cursor, sizeof(int64_t))
    if version >= RECORD_ERRORS_FROM:
        if _count(cursor, version >= FLEXIBLE_FROM) != 0:
            cursor.is_lost = True
        _expect_no_message(cursor, version >= FLEXIBLE_FROM)
    _expect_no_tags(cursor, version >= FLEXIBLE_FROM)
    if cursor.is_lost:
        return ()
    return topic, index, base_offset, log_append_time_ms


cdef object _topic(Cursor* cursor, int version):
    cdef const unsigned char* start = cursor.at
    cdef Py_ssize_t size_bytes
    if version >= TOPIC_ID_FROM:
        _skip(cursor, TOPIC_ID_BYTES)
        return None if cursor.is_lost else int.from_bytes(start[:<Py_ssize_t>TOPIC_ID_BYTES], "big")
    if version >= FLEXIBLE_FROM:
        size_bytes = _count(cursor, True)
    else:
        size_bytes = _int16(cursor)
    start = cursor.at
    _skip(cursor, size_bytes)
    if cursor.is_lost:
        return None
    try:
        return PyUnicode_DecodeUTF8(<const char*>start, size_bytes, NULL)
    except UnicodeDecodeError:
        cursor.is_lost = True
        return None


cdef Py_ssize_t _count(Cursor* cursor, bint flexible) noexcept:
    """Read a length: plain, or compact, which starts from 1."""
    cdef int64_t count
    if flexible:
        count = _uvarint(cursor) - 1
    else:
        count = _int32(cursor)
    if count < 0:
        cursor.is_lost = True
    return 0 if cursor.is_lost else <Py_ssize_t>count


cdef int64_t _uvarint(Cursor* cursor) noexcept:
    cdef int64_t number = 0
    cdef int shift = 0
    cdef unsigned char byte = 0x80
    while byte & 0x80:
        if shift > UVARINT_BITS_MAX:
            cursor.is_lost = True
            return 0
        byte = _byte(cursor)
        number |= <int64_t>(byte & 0x7F) << shift
        shift += 7
    return number


cdef void _expect_no_message(Cursor* cursor, bint flexible) noexcept:
    """Read a nullable text, which must be null."""
    if flexible:
        if _byte(cursor) != 0:
            cursor.is_lost = True
    elif _int16(cursor) != -1:
        cursor.is_lost = True


cdef void _expect_no_tags(Cursor* cursor, bint flexible) noexcept:
    if flexible and _byte(cursor) != 0:
        cursor.is_lost = True


cdef bint _skip(Cursor* cursor, Py_ssize_t size_bytes) noexcept:
    """Skip a number of bytes; if there are fewer, mark the cursor as lost and return False."""
    if cursor.is_lost or size_bytes < 0 or cursor.end - cursor.at < size_bytes:
        cursor.is_lost = True
        return False
    cursor.at += size_bytes
    return True


cdef unsigned char _byte(Cursor* cursor) noexcept:
    return (cursor.at - 1)[0] if _skip(cursor, 1) else 0


cdef int16_t _int16(Cursor* cursor) noexcept:
    return load_int16(cursor.at - 2) if _skip(cursor, sizeof(int16_t)) else 0


cdef int32_t _int32(Cursor* cursor) noexcept:
    return load_int32(cursor.at - 4) if _skip(cursor, sizeof(int32_t)) else 0


cdef int64_t _int64(Cursor* cursor) noexcept:
    return load_int64(cursor.at - 8) if _skip(cursor, sizeof(int64_t)) else 0
