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
from libc.stdint cimport int32_t, int64_t

from kprod._core.wire.plain_cursor cimport (
    Cursor, expect_no_tags, skip, take_byte, take_count, take_int16, take_int32, take_int64,
    take_topic,
)

cdef enum:
    VERSION_MIN = 3
    LOG_START_FROM = 5
    RECORD_ERRORS_FROM = 8
    FLEXIBLE_FROM = 9
    TOPIC_ID_FROM = 13
    VERSION_MAX = 13
    COUNT_MAX = 0x7FFFFFFF

# Larger base offsets are left to the codec, so that a record's offset, its batch's base offset plus
# its index, is always below 2⁶³.
cdef int64_t BASE_OFFSET_MAX = 0x7FFFFFFFFFFFFFFF - 0x7FFFFFFF


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
    skip(&cursor, sizeof(int32_t))  # the correlation id
    expect_no_tags(&cursor, flexible)
    topic_count = take_count(&cursor, flexible)
    while topic_count > 0 and not cursor.is_lost:
        topic_count -= 1
        topic = take_topic(&cursor, version >= TOPIC_ID_FROM, flexible)
        partition_count = take_count(&cursor, flexible)
        while partition_count > 0 and not cursor.is_lost:
            partition_count -= 1
            if len(taken) >= count_max:
                return None
            acknowledgement = _partition(&cursor, topic, version)
            taken.append(acknowledgement)
        expect_no_tags(&cursor, flexible)
    if take_int32(&cursor) != 0:  # throttle time
        return None
    expect_no_tags(&cursor, flexible)
    if cursor.is_lost or cursor.at != cursor.end:
        return None
    return taken


cdef tuple _partition(Cursor* cursor, object topic, int version):
    cdef int32_t index = take_int32(cursor)
    cdef int64_t base_offset
    cdef int64_t log_append_time_ms
    if take_int16(cursor) != 0:  # error code
        cursor.is_lost = True
    base_offset = take_int64(cursor)
    log_append_time_ms = take_int64(cursor)
    if index < 0 or not -1 <= base_offset <= BASE_OFFSET_MAX or log_append_time_ms < -1:
        cursor.is_lost = True
    if version >= LOG_START_FROM:
        skip(cursor, sizeof(int64_t))
    if version >= RECORD_ERRORS_FROM:
        if take_count(cursor, version >= FLEXIBLE_FROM) != 0:
            cursor.is_lost = True
        _expect_no_message(cursor, version >= FLEXIBLE_FROM)
    expect_no_tags(cursor, version >= FLEXIBLE_FROM)
    if cursor.is_lost:
        return ()
    return topic, index, base_offset, log_append_time_ms


cdef void _expect_no_message(Cursor* cursor, bint flexible) noexcept:
    """Read a nullable text, which must be null."""
    if flexible:
        if take_byte(cursor) != 0:
            cursor.is_lost = True
    elif take_int16(cursor) != -1:
        cursor.is_lost = True
