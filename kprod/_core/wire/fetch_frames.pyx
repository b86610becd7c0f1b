# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The fast writer and the fast reader of fetches of one partition.

A consumer that keeps up with a topic sends a fetch for each record. Within a session such a request
names one partition or none, and its response has records of one partition or of none; both are
written and read here in one pass, without a table. Any other request (several partitions, forgotten
ones, an old version), and any other response (an error, a throttle time, a hint of a new leader,
aborted transactions, a malformed field) is left to the table-driven codec.

Thread-safety: any thread; functions of their arguments, and immutable values.
Source: Kafka's FetchRequest and FetchResponse definitions (kafka-clients 4.3.1), KIP-227, KIP-482,
KIP-516.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from kprod._core.endian cimport store_int32, store_int64
from kprod._core.wire.plain_cursor cimport (
    Cursor, expect_no_tags, skip, take_int16, take_int32, take_int64, take_topic,
    take_uvarint,
)

cdef enum:
    VERSION_MIN = 12  # the first flexible one; the epoch of the last record came with it
    TOPIC_ID_FROM = 13
    VERSION_MAX = 17
    CORRELATION_ID_OFFSET = 8  # after the size prefix, API key and version
    COUNTS_BYTES = 2  # of the named and of the forgotten topics
    SMALL_BYTES = 4096  # records of a response
    SESSION_BYTES = 13  # the fields before the topics
    NAMED_AT = SESSION_BYTES + 1  # from the end of the opening: the id of the only topic
    OFFSET_AT = NAMED_AT + 16 + 1 + 4 + 4  # after the id, a count, partition, leader epoch


@cython.final
cdef class LoneFetch:
    """A response without errors, with records of one partition or of none.

    Attributes:
        session_id: The session's id; 0 for none.
        topic: The topic's name, or from version 13 on its id as an integer; None if the response
            has no partition.
        partition: The partition's index.
        high_watermark: Its high watermark.
        last_stable_offset: Its last stable offset.
        log_start_offset: Its log start offset.
        records: A view of its records; None if there are none.
    """

    def __init__(self):
        """Create a response without a partition."""
        self.session_id = 0
        self.topic = self.records = None
        self.partition = -1
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1


cpdef LoneFetch read_lone_fetch(frame, int version):
    """Read a response without errors, with records of one partition or of none.

    Args:
        frame: `bytes` or `bytearray`: header and body, without the size prefix.
        version: Version of the response.

    Returns:
        The response; None for every other one, valid or not.
    """
    cdef Cursor cursor
    cdef LoneFetch fetch
    cdef int64_t topic_count
    cdef Py_ssize_t records_at
    cdef Py_ssize_t records_bytes = 0
    cdef const unsigned char* start
    if not VERSION_MIN <= version <= VERSION_MAX:
        return None
    if type(frame) is bytes:
        start = <const unsigned char*>PyBytes_AS_STRING(frame)
        cursor.end = start + PyBytes_GET_SIZE(frame)
    elif type(frame) is bytearray:
        start = <const unsigned char*>PyByteArray_AS_STRING(frame)
        cursor.end = start + PyByteArray_GET_SIZE(frame)
    else:
        return None
    cursor.at = start
    cursor.is_lost = False
    skip(&cursor, sizeof(int32_t))  # the correlation id
    expect_no_tags(&cursor, True)
    if take_int32(&cursor) != 0 or take_int16(&cursor) != 0:  # throttle time, error code
        return None
    fetch = LoneFetch.__new__(LoneFetch)
    fetch.partition = -1
    fetch.high_watermark = fetch.last_stable_offset = fetch.log_start_offset = -1
    fetch.session_id = take_int32(&cursor)
    topic_count = take_uvarint(&cursor) - 1
    if not 0 <= topic_count <= 1:
        return None
    records_at = 0
    if topic_count == 1:
        fetch.topic = take_topic(&cursor, version >= TOPIC_ID_FROM, True)
        if take_uvarint(&cursor) != 2:  # one partition
            return None
        records_bytes = _take_partition(&cursor, fetch)
        records_at = cursor.at - start - records_bytes
        expect_no_tags(&cursor, True)  # the partition's
        expect_no_tags(&cursor, True)  # the topic's
    expect_no_tags(&cursor, True)
    if cursor.is_lost or cursor.at != cursor.end:
        return None
    if records_bytes > SMALL_BYTES:
        fetch.records = memoryview(frame)[records_at:records_at + records_bytes]
    elif records_bytes > 0:  # a copy costs less than a slice
        fetch.records = PyMemoryView_FromObject(
            PyBytes_FromStringAndSize(<const char*>start + records_at, records_bytes))
    return fetch


cdef Py_ssize_t _take_partition(Cursor* cursor, LoneFetch fetch) noexcept:
    """Read a partition up to the end of its records; return how many bytes they have."""
    cdef int64_t records_bytes
    fetch.partition = take_int32(cursor)
    if take_int16(cursor) != 0:  # error code
        cursor.is_lost = True
    fetch.high_watermark = take_int64(cursor)
    fetch.last_stable_offset = take_int64(cursor)
    fetch.log_start_offset = take_int64(cursor)
    if take_uvarint(cursor) > 1:  # aborted transactions: null or empty
        cursor.is_lost = True
    if take_int32(cursor) != -1:  # the preferred replica
        cursor.is_lost = True
    records_bytes = take_uvarint(cursor) - 1
    if records_bytes <= 0:
        return 0
    return <Py_ssize_t>records_bytes if skip(cursor, <Py_ssize_t>records_bytes) else 0


def lone_fetch_frame(
    bytes opening not None, int32_t correlation_id, bytes session not None, bytes named not None,
    bytes closing not None,
) -> bytes:
    """Write the frame of a request that names at most one partition, and forgets none.

    Args:
        opening: All bytes before `max_bytes`, starting with four bytes for the size; size and
            correlation id in it are overwritten.
        correlation_id: An int32, ≥ 0.
        session: The result of `session_fields`.
        named: The result of `partition_fields`; empty if no partition is named.
        closing: All bytes after the forgotten topics.

    Returns:
        The frame, its size prefix included.
    """
    cdef Py_ssize_t most = (
        PyBytes_GET_SIZE(opening) + PyBytes_GET_SIZE(session) + PyBytes_GET_SIZE(named)
        + PyBytes_GET_SIZE(closing) + COUNTS_BYTES
    )
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, most)
    cdef unsigned char* start = <unsigned char*>PyBytes_AS_STRING(frame)
    cdef unsigned char* at = _put(_put(start, opening), session)
    at[0] = 1 if PyBytes_GET_SIZE(named) == 0 else 2  # no topic, or one
    at = _put(at + 1, named)
    at[0] = 1  # no forgotten topic
    at = _put(at + 1, closing)
    store_int32(start, <int32_t>(at - start - 4))
    store_int32(start + CORRELATION_ID_OFFSET, correlation_id)
    return frame


cpdef bytes repeated_fetch_frame(
    bytes frame, Py_ssize_t opening_bytes, int32_t correlation_id, int32_t session_epoch,
    int64_t offset, int32_t last_epoch
):
    """Copy the frame of a request that names one partition by its topic's id, with a new offset.

    Args:
        frame: A frame that `lone_fetch_frame` has made, of version 13 or later.
        opening_bytes: Size of the opening that it was made from.
        correlation_id: An int32, 0 or more.
        session_epoch: The session's epoch.
        offset: Offset of the first record wanted.
        last_epoch: Leader epoch of the record before; -1 if unknown.

    Returns:
        The frame, its size prefix included.

    Raises:
        ValueError: The frame is too short for these fields.
    """
    cdef bytes copied
    cdef unsigned char* start
    cdef unsigned char* at
    if opening_bytes < 0 or opening_bytes > PyBytes_GET_SIZE(frame) - OFFSET_AT - 12:
        raise ValueError(f"a frame of {len(frame)} bytes names no partition")
    copied = PyBytes_FromStringAndSize(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
    start = <unsigned char*>PyBytes_AS_STRING(copied)
    at = start + opening_bytes
    store_int32(start + CORRELATION_ID_OFFSET, correlation_id)
    store_int32(at + SESSION_BYTES - 4, session_epoch)
    store_int64(at + OFFSET_AT, offset)
    store_int32(at + OFFSET_AT + 8, last_epoch)
    return copied


def session_fields(
    int32_t bytes_max, bint reads_committed, int32_t session_id, int32_t session_epoch
) -> bytes:
    """Write the fields of a request that precede its topics.

    Args:
        bytes_max: Maximum size of the response.
        reads_committed: Whether only committed records are wanted.
        session_id: The session's id; 0 for none.
        session_epoch: The session's epoch.

    Returns:
        The fields.
    """
    cdef unsigned char written[13]
    cdef unsigned char* at = _put_int32(written, bytes_max)
    at[0] = reads_committed
    at = _put_int32(at + 1, session_id)
    _put_int32(at, session_epoch)
    return PyBytes_FromStringAndSize(<char*>written, sizeof(written))


def partition_fields(
    int32_t partition, int32_t leader_epoch, int64_t offset, int32_t last_epoch, int32_t bytes_max
) -> bytes:
    """Write a topic's fields after its name, with one partition.

    Args:
        partition: The partition's index.
        leader_epoch: The leader epoch that the client knows; −1 if unknown.
        offset: Offset of the first record wanted.
        last_epoch: Leader epoch of the record before; −1 if unknown.
        bytes_max: Maximum size of the partition's records.

    Returns:
        The fields, to follow the topic's id or its encoded name.
    """
    cdef unsigned char written[35]
    cdef unsigned char* at = written
    at[0] = 2  # one partition
    at = _put_int32(at + 1, partition)
    at = _put_int32(at, leader_epoch)
    at = _put_int64(at, offset)
    at = _put_int32(at, last_epoch)
    at = _put_int64(at, -1)  # the log start offset, which a follower sends
    at = _put_int32(at, bytes_max)
    at[0] = at[1] = 0  # tags of the partition, and of the topic
    return PyBytes_FromStringAndSize(<char*>written, sizeof(written))


cdef inline unsigned char* _put(unsigned char* at, bytes piece) noexcept:
    memcpy(at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
    return at + PyBytes_GET_SIZE(piece)


cdef inline unsigned char* _put_int32(unsigned char* at, int32_t value) noexcept:
    store_int32(at, value)
    return at + 4


cdef inline unsigned char* _put_int64(unsigned char* at, int64_t value) noexcept:
    store_int64(at, value)
    return at + 8
