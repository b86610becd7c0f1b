# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -Os
"""The builder of message sets, in the record formats V0 and V1 for brokers before 0.11.

Without a codec each record is one message. With a codec, all messages are compressed together and
become the value of a single *wrapper* message. `message_set_reader` describes the offsets and
timestamps of a wrapper.

Thread-safety: each call has its own buffer. The rows are read with the GIL held, and must not
change meanwhile.
Source: Kafka LegacyRecord and MemoryRecordsBuilder (clients 3.9.1); KIP-31 for relative offsets,
KIP-32 for timestamps.
"""

import zlib

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kprod._core.endian cimport store_int32, store_int64
from kprod._core.layout cimport (
    LOG_OVERHEAD_BYTES,
    MAGIC_V0,
    MAGIC_V1,
    MESSAGE_ATTRIBUTES_OFFSET,
    MESSAGE_CRC_OFFSET,
    MESSAGE_MAGIC_OFFSET,
    MESSAGE_SIZE_OFFSET,
    MESSAGE_TIMESTAMP_OFFSET,
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

from kprod.errors import LocalProtocolError, RecordTooLarge, UnsupportedCodec

cdef object crc32 = zlib.crc32


# The rows come from the caller, and may be too short.
@cython.boundscheck(True)
def encode_message_set(
    rows, *, int magic, int codec=0, compress=None, log_append_time_ms=None
):
    """Write records as a message set.

    Args:
        rows: Each has offset, timestamp (ms), key and value; offsets ascend. Items after the value
            are ignored. V0 has no timestamp.
        magic: 0 or 1.
        codec: Unless 0, all records go into a single wrapper message.
        compress: Called as `(codec, payload, magic)`; needed with a codec.
        log_append_time_ms: With V1, the timestamp that the broker sets on all records.

    Returns:
        The message set; empty for no rows.

    Raises:
        UnsupportedCodec: The codec was introduced with a later format.
        RecordTooLarge: A message or the wrapper would not fit a 32-bit size.
        LocalProtocolError: The magic is not 0 or 1, or offsets do not ascend.
    """
    cdef Message message
    cdef bytearray out = bytearray()
    cdef int64_t first_offset = 0
    cdef int64_t last_offset = -1
    cdef int64_t timestamp_max_ms = NO_TIMESTAMP
    cdef bint stamp = log_append_time_ms is not None and magic == MAGIC_V1
    check_format(magic, codec)
    message.magic = magic
    message.attributes = TIMESTAMP_TYPE_MASK if stamp and not codec else 0
    for row in rows:
        message.offset = row[0]
        if message.offset <= last_offset:
            raise LocalProtocolError(f"offset {message.offset} after offset {last_offset}")
        if codec and magic == MAGIC_V1:
            if last_offset < 0:
                first_offset = message.offset
        last_offset = message.offset
        message.offset -= first_offset
        message.timestamp_ms = log_append_time_ms if stamp and not codec else row[1]
        timestamp_max_ms = max(timestamp_max_ms, message.timestamp_ms)
        append_message(out, &message, as_bytes(row[2]), as_bytes(row[3]))
    if codec and last_offset >= 0:
        wrapped = compress(codec, bytes(out), magic)
        out = bytearray()
        message.offset = last_offset
        message.timestamp_ms = log_append_time_ms if stamp else timestamp_max_ms
        message.attributes = codec | (TIMESTAMP_TYPE_MASK if stamp else 0)
        append_message(out, &message, None, as_bytes(wrapped))
    return bytes(out)


cdef int check_format(int magic, int codec) except -1:
    if magic != MAGIC_V0 and magic != MAGIC_V1:
        raise LocalProtocolError(f"message sets have magic 0 or 1, asked for {magic}")
    if not 0 <= codec <= LEGACY_CODEC_MAX:
        raise UnsupportedCodec(
            f"codec {codec} cannot be used with magic {magic}, the highest is {LEGACY_CODEC_MAX}"
        )
    return 0


cdef inline bytes as_bytes(content):
    if content is None or type(content) is bytes:
        return content
    return bytes(memoryview(content))


cdef int append_message(bytearray out, Message *message, bytes key, bytes value) except -1:
    """Append one log entry to the output."""
    cdef Py_ssize_t key_size = 0 if key is None else PyBytes_GET_SIZE(key)
    cdef Py_ssize_t value_size = 0 if value is None else PyBytes_GET_SIZE(value)
    cdef Py_ssize_t size = message_overhead_bytes(message.magic) + key_size + value_size
    cdef Py_ssize_t start = PyByteArray_GET_SIZE(out)
    cdef uint8_t *entry
    cdef uint8_t *at
    if size > INT32_MAX:
        raise RecordTooLarge(f"message of {size} bytes, its size field holds {INT32_MAX}")
    PyByteArray_Resize(out, start + LOG_OVERHEAD_BYTES + size)
    entry = <uint8_t *>PyByteArray_AS_STRING(out) + start
    store_int64(entry, message.offset)
    store_int32(entry + MESSAGE_SIZE_OFFSET, <int32_t>size)
    (entry + MESSAGE_MAGIC_OFFSET)[0] = message.magic
    (entry + MESSAGE_ATTRIBUTES_OFFSET)[0] = message.attributes
    at = entry + MESSAGE_TIMESTAMP_OFFSET
    if message.magic == MAGIC_V1:
        store_int64(at, message.timestamp_ms)
        at += sizeof(int64_t)
    at = put_content(at, key)
    put_content(at, value)
    covered = PyMemoryView_FromMemory(
        <char *>entry + MESSAGE_MAGIC_OFFSET,
        size - (MESSAGE_MAGIC_OFFSET - MESSAGE_CRC_OFFSET),
        PyBUF_READ,
    )
    store_int32(entry + MESSAGE_CRC_OFFSET, <int32_t><uint32_t>crc32(covered))
    return 0


cdef inline uint8_t *put_content(uint8_t *at, bytes content) noexcept:
    """Write a key or value after its size; return the address after it."""
    cdef Py_ssize_t size
    if content is None:
        store_int32(at, <int32_t>NULL_SIZE)
        return at + SIZE_FIELD_BYTES
    size = PyBytes_GET_SIZE(content)
    store_int32(at, <int32_t>size)
    memcpy(at + SIZE_FIELD_BYTES, PyBytes_AS_STRING(content), size)
    return at + SIZE_FIELD_BYTES + size
