# One message of the record formats V0 and V1: its fields, and the parts of its layout that both
# reader and builder need; inline only, so there is no .pyx.
# Source: Kafka LegacyRecord (clients 3.9.1).

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kprod._core.layout cimport MAGIC_V1, MESSAGE_V0_OVERHEAD_BYTES, MESSAGE_V1_OVERHEAD_BYTES

cdef enum:
    NULL_SIZE = -1
    SIZE_FIELD_BYTES = 4
    # The timestamp of a V0 message, which has none.
    NO_TIMESTAMP = -1
    # zstd needs V2; no reader of older formats supports it.
    LEGACY_CODEC_MAX = 3

cdef struct Message:
    # One log entry, its fields read once; positions count from the start of the input.
    int64_t offset
    int32_t size_bytes
    uint32_t crc
    int8_t magic
    uint8_t attributes
    int64_t timestamp_ms
    Py_ssize_t start
    Py_ssize_t key_start
    int32_t key_size
    Py_ssize_t value_start
    int32_t value_size


# Bytes of a message from the checksum to the end, without key and value.
cdef inline int32_t message_overhead_bytes(int8_t magic) noexcept nogil:
    return MESSAGE_V1_OVERHEAD_BYTES if magic == MAGIC_V1 else MESSAGE_V0_OVERHEAD_BYTES
