# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -Os
"""The reader of message sets, the record formats V0 and V1 of brokers before 0.11.

A message set is a series of log entries: offset, size, message. A message holds one record, or it
is a *wrapper*, whose value is a compressed message set. Inner offsets are absolute in V0. In V1
they are relative, and the wrapper has the last record's offset, so the whole wrapper must be opened
before the first offset is known.

Hostile input. Whatever the bytes, the outcome is entries, `CorruptRecord`, or "need more": an entry
that extends past the end of the input ends the iteration and is counted in `trailing_bytes`. Every
length is checked against the available bytes before it is used. More bytes cannot follow inside a
wrapper, so a cut-off message there is corrupt. Records are created one at a time; besides them only
the decompressed wrapper is held, whose size `decompress` must bound.

Thread-safety: none; one thread per reader. The input must not be changed while it is read.
Source: Kafka LegacyRecord and AbstractLegacyRecordBatch (clients 3.9.1); KIP-31 for relative
offsets, KIP-32 for timestamps.
"""

import zlib

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_GET_BUFFER
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t

from kprod._core.endian cimport load_int32, load_int64, load_uint32
from kprod._core.layout cimport (
    CODEC_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC_V0,
    MAGIC_V1,
    MESSAGE_ATTRIBUTES_OFFSET,
    MESSAGE_CRC_OFFSET,
    MESSAGE_MAGIC_OFFSET,
    MESSAGE_SIZE_OFFSET,
    MESSAGE_TIMESTAMP_OFFSET,
    MESSAGE_V0_OVERHEAD_BYTES,
    TIMESTAMP_TYPE_MASK,
)
from kprod._core.record.message_fields cimport (
    LEGACY_CODEC_MAX,
    NO_TIMESTAMP,
    NULL_SIZE,
    SIZE_FIELD_BYTES,
    Message,
    message_overhead_bytes,
)

from kprod.errors import CorruptRecord, LocalProtocolError

cdef object crc32 = zlib.crc32
cdef tuple NO_HEADERS = ()


cdef class Source:
    """Reads messages at given positions of a buffer, and rejects malformed ones."""

    def __cinit__(self, buffer, bint check_crc):
        self.view = memoryview(buffer).cast("B")
        self.start = <const uint8_t *>PyMemoryView_GET_BUFFER(self.view).buf
        self.size = PyMemoryView_GET_BUFFER(self.view).len
        self.check_crc = check_crc

    cdef int parse(self, Py_ssize_t position, Message *message) except -1:
        """Read the entry at `position`: return 1 if it is whole, 0 if bytes are missing."""
        cdef Py_ssize_t left = self.size - position
        cdef const uint8_t *at = self.start + position
        if left < LOG_OVERHEAD_BYTES:
            return 0
        message.start = position
        message.size_bytes = load_int32(at + MESSAGE_SIZE_OFFSET)
        if message.size_bytes < MESSAGE_V0_OVERHEAD_BYTES:
            raise CorruptRecord(
                f"message at byte {position}: size {message.size_bytes}, "
                f"the least is {MESSAGE_V0_OVERHEAD_BYTES}"
            )
        if left > MESSAGE_MAGIC_OFFSET:
            message.magic = <int8_t>(at + MESSAGE_MAGIC_OFFSET)[0]
            if message.magic != MAGIC_V0 and message.magic != MAGIC_V1:
                raise CorruptRecord(
                    f"message at byte {position}: magic {message.magic}, expected 0 or 1"
                )
        if left - LOG_OVERHEAD_BYTES < message.size_bytes:
            return 0
        self.parse_fields(message)
        if self.check_crc:
            self.verify(message)
        return 1

    cdef int parse_fields(self, Message *message) except -1:
        """Read the message of a whole entry, whose magic is known."""
        cdef const uint8_t *at = self.start + message.start
        cdef Py_ssize_t end = message.start + LOG_OVERHEAD_BYTES + message.size_bytes
        if message.size_bytes < message_overhead_bytes(message.magic):
            raise CorruptRecord(
                f"message at byte {message.start}: size {message.size_bytes}, the least for magic "
                f"{message.magic} is {message_overhead_bytes(message.magic)}"
            )
        message.offset = load_int64(at)
        message.crc = load_uint32(at + MESSAGE_CRC_OFFSET)
        message.attributes = (at + MESSAGE_ATTRIBUTES_OFFSET)[0]
        message.timestamp_ms = NO_TIMESTAMP
        message.key_start = message.start + MESSAGE_TIMESTAMP_OFFSET + SIZE_FIELD_BYTES
        if message.magic == MAGIC_V1:
            message.timestamp_ms = load_int64(at + MESSAGE_TIMESTAMP_OFFSET)
            message.key_start += sizeof(int64_t)
        message.key_size = load_int32(self.start + message.key_start - SIZE_FIELD_BYTES)
        # The overhead includes both size fields, so one remains after the key.
        if not NULL_SIZE <= message.key_size <= end - message.key_start - SIZE_FIELD_BYTES:
            raise CorruptRecord(
                f"message at byte {message.start}: key size {message.key_size} in a message of "
                f"{message.size_bytes} bytes"
            )
        message.value_start = message.key_start + max(message.key_size, 0) + SIZE_FIELD_BYTES
        message.value_size = load_int32(self.start + message.value_start - SIZE_FIELD_BYTES)
        if (
            message.value_size < NULL_SIZE
            or max(message.value_size, 0) != end - message.value_start
        ):
            raise CorruptRecord(
                f"message at byte {message.start}: value size {message.value_size}, "
                f"{end - message.value_start} bytes are left of the message"
            )
        return 0

    cdef bint is_intact(self, Message *message) except -1:
        """Return whether the checksum matches the message."""
        cdef Py_ssize_t covered = message.size_bytes - (MESSAGE_MAGIC_OFFSET - MESSAGE_CRC_OFFSET)
        cdef char *at = <char *>self.start + message.start + MESSAGE_MAGIC_OFFSET
        return <uint32_t>crc32(PyMemoryView_FromMemory(at, covered, PyBUF_READ)) == message.crc

    cdef int verify(self, Message *message) except -1:
        if not self.is_intact(message):
            raise CorruptRecord(
                f"message at byte {message.start}, offset {message.offset}: "
                f"checksum is not {message.crc:#010x} as the message says"
            )
        return 0

    cdef object content(self, Py_ssize_t start, int32_t size):
        """Return a copy of a key or value; None for null."""
        if size < 0:
            return None
        return PyBytes_FromStringAndSize(<const char *>self.start + start, size)


cdef class MessageSetReader:
    """Iterator over the log entries in a buffer.

    Iteration ends at the end of the input or before an entry that extends past it.

    Args:
        buffer: Contiguous bytes; kept until the reader and all its entries are gone.
        decompress: Called as `(codec, payload, magic)` for each wrapper that is opened; it must
            bound its own output. Without it wrappers cannot be opened.
        check_crc: Whether a wrong checksum raises; if not, `MessageEntry.is_intact` reports it.

    Raises:
        CorruptRecord: From iteration, at the first entry that is not a message of magic 0 or 1.

    Thread-safety: none.
    """

    def __init__(self, buffer, *, decompress=None, bint check_crc=True):
        self._source = Source(buffer, check_crc)
        self._decompress = decompress
        self._position = 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef MessageEntry entry = MessageEntry.__new__(MessageEntry)
        if not self._source.parse(self._position, &entry._message):
            raise StopIteration
        entry._source = self._source
        entry._decompress = self._decompress
        self._position += LOG_OVERHEAD_BYTES + entry._message.size_bytes
        return entry

    @property
    def position(self):
        """Start of the next entry, in bytes from the start of the input."""
        return self._position

    @property
    def trailing_bytes(self):
        """Bytes after the last whole entry so far."""
        return self._source.size - self._position


cdef class MessageEntry:
    """One log entry: a message that holds one record, or a wrapper that holds many.

    Only `MessageSetReader` creates entries. Iterating one gives rows of offset, timestamp (ms, −1
    in V0), key, value and an empty tuple for the headers that these formats lack.

    Thread-safety: none.
    """

    def __init__(self):
        raise TypeError("entries are made by MessageSetReader")

    @property
    def offset(self):
        """The offset in the entry's own field; in a wrapper it is usually the last record's."""
        return self._message.offset

    @property
    def position(self):
        """Start of the entry, in bytes from the start of the input."""
        return self._message.start

    @property
    def size_bytes(self):
        """Length of the whole entry, its offset and size included."""
        return LOG_OVERHEAD_BYTES + self._message.size_bytes

    @property
    def crc(self):
        """The checksum as written."""
        return self._message.crc

    @property
    def magic(self):
        """Version of the message format, 0 or 1."""
        return self._message.magic

    @property
    def attributes(self):
        """The attribute byte as written."""
        return self._message.attributes

    @property
    def codec(self):
        """Number of the codec; 0 unless this is a wrapper."""
        return self._message.attributes & CODEC_MASK

    @property
    def timestamp_type(self):
        """1 if the broker stamped the message, else 0; V0 has no timestamps."""
        if self._message.magic == MAGIC_V0:
            return 0
        return 1 if self._message.attributes & TIMESTAMP_TYPE_MASK else 0

    @property
    def timestamp_ms(self):
        """The timestamp as written, ms since 1970; −1 in V0."""
        return self._message.timestamp_ms

    @property
    def is_wrapper(self):
        """Whether the value is a compressed message set."""
        return (self._message.attributes & CODEC_MASK) != 0

    @property
    def is_intact(self):
        """Whether the checksum matches."""
        return bool(self._source.is_intact(&self._message))

    def __iter__(self):
        if self._message.attributes & CODEC_MASK:
            return self._open(False)
        return iter((make_row(self._source, &self._message),))

    def messages(self):
        """Iterate the messages that hold records: this one, or those in the wrapper.

        Their offsets are absolute and their timestamps the effective ones, as in rows. All else is
        as written, and positions count from the start of the decompressed wrapper.
        """
        if self._message.attributes & CODEC_MASK:
            return self._open(True)
        return iter((self,))

    cdef WrappedRecords _open(self, bint as_entries):
        """Open the wrapper, and check all its messages."""
        cdef WrappedRecords records = WrappedRecords.__new__(WrappedRecords)
        records._as_entries = as_entries
        records._source = self._open_wrapper()
        records._wrapper = self._message
        records._base_offset = records._check_all()
        return records

    cdef Source _open_wrapper(self):
        """Decompress the value of a wrapper."""
        cdef int codec = self._message.attributes & CODEC_MASK
        if codec > LEGACY_CODEC_MAX:
            raise CorruptRecord(
                f"wrapper at byte {self._message.start}: codec {codec} in magic "
                f"{self._message.magic}, the highest is {LEGACY_CODEC_MAX}"
            )
        if self._message.value_size < 0:
            raise CorruptRecord(f"wrapper at byte {self._message.start} has a null value")
        if self._decompress is None:
            raise LocalProtocolError(f"a wrapper of codec {codec}, and no decompressor to open it")
        payload = self._source.view[
            self._message.value_start : self._message.value_start + self._message.value_size
        ]
        return Source(self._decompress(codec, payload, self._message.magic), self._source.check_crc)


cdef class WrappedRecords:
    """Iterator over the records of an opened wrapper, as rows or as entries."""

    def __init__(self):
        raise TypeError("made by MessageEntry")

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message
        cdef MessageEntry entry
        if self._position >= self._source.size:
            raise StopIteration
        self._source.parse(self._position, &message)
        self._position += LOG_OVERHEAD_BYTES + message.size_bytes
        message.offset += self._base_offset
        if message.magic == MAGIC_V1 and self._wrapper.attributes & TIMESTAMP_TYPE_MASK:
            message.timestamp_ms = self._wrapper.timestamp_ms
        if not self._as_entries:
            return make_row(self._source, &message)
        entry = MessageEntry.__new__(MessageEntry)
        entry._source = self._source
        entry._message = message
        return entry

    cdef int64_t _check_all(self) except? -1:
        """Check all inner messages; return the offset that must be added to theirs."""
        cdef Message message
        cdef Py_ssize_t position = 0
        cdef int64_t offset_max = 0
        cdef int64_t base_offset = 0
        while position < self._source.size:
            if not self._source.parse(position, &message):
                raise CorruptRecord(
                    f"wrapper at byte {self._wrapper.start}: its inner message at byte {position} "
                    f"is cut, the wrapper has {self._source.size} bytes"
                )
            self._check_member(&message)
            offset_max = max(offset_max, message.offset)
            position += LOG_OVERHEAD_BYTES + message.size_bytes
            self.record_count += 1
        if self.record_count == 0:
            raise CorruptRecord(f"wrapper at byte {self._wrapper.start} holds no message")
        if self._wrapper.magic == MAGIC_V0 or self._wrapper.offset == 0:
            # Some librdkafka releases wrote 0 in V1 wrappers; their inner offsets started at 0.
            return 0
        base_offset = self._wrapper.offset - message.offset
        if base_offset < 0 or offset_max > INT64_MAX - base_offset:
            raise CorruptRecord(
                f"wrapper at byte {self._wrapper.start}: its offset {self._wrapper.offset} does "
                f"not go with inner offset {offset_max}"
            )
        return base_offset

    cdef int _check_member(self, Message *message) except -1:
        """Reject a message that is not allowed inside this wrapper."""
        if message.attributes & CODEC_MASK:
            raise CorruptRecord(f"wrapper at byte {self._wrapper.start} holds another wrapper")
        if message.magic != self._wrapper.magic:
            raise CorruptRecord(
                f"wrapper at byte {self._wrapper.start}: magic {message.magic} inside magic "
                f"{self._wrapper.magic}"
            )
        if message.offset < 0:
            raise CorruptRecord(
                f"wrapper at byte {self._wrapper.start}: negative inner offset {message.offset}"
            )
        return 0


cdef inline tuple make_row(Source source, Message *message):
    return (
        message.offset,
        message.timestamp_ms,
        source.content(message.key_start, message.key_size),
        source.content(message.value_start, message.value_size),
        NO_HEADERS,
    )
