# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The record that a consumer hands to the application.

A consumer makes millions of them a second, so a record costs as few objects as possible. Offset,
timestamp and leader epoch are C numbers until somebody asks for them. Topic and partition are in
one `PartitionStamp`, which all records of a partition share. Headers stay encoded until they are
first read. The garbage collector does not know of records: they hold only bytes, str, memoryviews
and numbers, so that no reference cycle can pass through one.

Thread-safety: records are immutable; decoding the headers twice gives equal tuples.
Source: Kafka ConsumerRecord (clients 4.3.1) for the fields.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from kprod._core.record.record_iterator cimport headers_in_section

from kprod.errors import CorruptRecord

# The layer above registers its enumeration; until then the type is the number in the format.
cdef tuple _timestamp_types = (0, 1)


def register_timestamp_types(create_time, log_append_time):
    """Register what `ConsumerRecord.timestamp_type` returns.

    Args:
        create_time: `TimestampType` of a timestamp that the producer set.
        log_append_time: `TimestampType` of a timestamp that the broker set.
    """
    global _timestamp_types
    _timestamp_types = (create_time, log_append_time)


@cython.final
@cython.no_gc
cdef class PartitionStamp:
    """Topic and number of a partition, made once and shared by its records.

    Args:
        topic: Name of the topic.
        partition: Partition number, from 0.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.recent_headers = ()

    def __repr__(self):
        return f"PartitionStamp({self.topic!r}, {self.partition})"


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class ConsumerRecord:
    """A record that was read from a topic.

    The constructor is for tests of applications; a consumer makes records otherwise.

    Args:
        topic: Name of the topic.
        partition: Partition number, from 0.
        offset: Place in the partition.
        timestamp_ms: Milliseconds since 1970; -1 for none.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did; None if the
            record's format has no timestamps.
        leader_epoch: Epoch of the leader that appended the record; None if unknown.
        key: Bytes; None for no key.
        value: Bytes; None for a null value.
        headers: Pairs of key and value.

    Attributes:
        offset: Place in the partition.
        timestamp_ms: Milliseconds since 1970; -1 for none.
        key: Bytes or None; a memoryview if the consumer requests views.
        value: Bytes or None; a memoryview if the consumer requests views.

    Thread-safety: immutable.
    """

    def __init__(self, str topic not None, int32_t partition, int64_t offset, *,
                 int64_t timestamp_ms=-1, timestamp_type=0, leader_epoch=None,
                 key=None, value=None, headers=()):
        self.stamp = PartitionStamp(topic, partition)
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.time_type = NO_TIMESTAMP_TYPE if timestamp_type is None else int(timestamp_type)
        if not NO_TIMESTAMP_TYPE <= self.time_type <= 1:
            raise ValueError(f"timestamp_type={timestamp_type!r}: must be 0, 1 or None")
        self.epoch = NO_LEADER_EPOCH if leader_epoch is None else leader_epoch
        self.key = _checked_content("key", key)
        self.value = _checked_content("value", value)
        pairs = tuple(headers)
        self.encoded_headers = pairs if pairs else None

    @property
    def topic(self):
        """Name of the topic."""
        return self.stamp.topic

    @property
    def partition(self):
        """Number of the partition, 0-based."""
        return self.stamp.partition

    @property
    def timestamp_type(self):
        """Whether producer or broker set the timestamp; None in formats without timestamps."""
        if self.time_type == NO_TIMESTAMP_TYPE:
            return None
        return _timestamp_types[self.time_type]

    @property
    def leader_epoch(self):
        """Epoch of the leader that wrote the record; None if it is not known."""
        return None if self.epoch == NO_LEADER_EPOCH else self.epoch

    @property
    def headers(self):
        """Pairs of key and value in the order in which they were sent; keys may repeat.

        Raises:
            CorruptRecord: A key is not UTF-8.
        """
        if self.encoded_headers is None:
            return ()
        if isinstance(self.encoded_headers, bytes):
            return self._decode_headers()
        return self.encoded_headers

    cdef tuple _decode_headers(self):
        cdef object section = self.encoded_headers
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(section)
        try:
            headers = headers_in_section(
                start, start + PyBytes_GET_SIZE(section), self.header_count,
                self.stamp.recent_headers)
        except CorruptRecord as error:
            raise corrupt_record(self.stamp, self.offset, error) from error
        self.stamp.recent_headers = headers
        self.encoded_headers = headers
        return headers

    def __eq__(self, other):
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return _fields(self) == _fields(<ConsumerRecord>other)

    def __hash__(self):
        # The offset alone distinguishes nearly all records, and is the same in every process.
        return self.offset

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, "
            f"offset={self.offset}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})")

    def __reduce__(self):
        return _restore, _fields(self)


cdef tuple _fields(ConsumerRecord record):
    """All fields, those of memoryviews as bytes."""
    return (
        record.stamp.topic, record.stamp.partition, record.offset, record.timestamp_ms,
        None if record.time_type == NO_TIMESTAMP_TYPE else record.time_type,
        record.leader_epoch, _as_bytes(record.key), _as_bytes(record.value), record.headers)


def _restore(*fields):
    """Make a pickled record again."""
    names = ("timestamp_ms", "timestamp_type", "leader_epoch", "key", "value", "headers")
    return ConsumerRecord(*fields[:3], **dict(zip(names, fields[3:])))


cdef object _as_bytes(object content):
    return bytes(content) if isinstance(content, memoryview) else content


cdef object _checked_content(str name, object content):
    """Reject contents through which a reference cycle could pass."""
    if content is None or type(content) in (bytes, memoryview):
        return content
    raise TypeError(f"{name} must be bytes, memoryview or None, got {type(content).__name__}")


cdef object corrupt_record(PartitionStamp stamp, int64_t offset, object error):
    """Make the error that names the place of what cannot be read."""
    corrupt = CorruptRecord(
        f"topic {stamp.topic!r}, partition {stamp.partition}, offset {offset}: {error}")
    corrupt.topic = stamp.topic
    corrupt.partition = stamp.partition
    corrupt.offset = offset
    return corrupt
