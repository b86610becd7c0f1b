# The header of a record batch of format V2: 61 bytes in front of the records. Inline only, so there
# is no .pyx.
#
# The checksum must be written last, since it covers all fields behind it.
# Source: Kafka DefaultRecordBatch (clients 4.3.1).

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t

from kprod._core.endian cimport store_int16, store_int32, store_int64
from kprod._core.layout cimport (
    ATTRIBUTES_OFFSET,
    BASE_OFFSET_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    BATCH_LENGTH_OFFSET,
    CRC_OFFSET,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    MAX_TIMESTAMP_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET,
    RECORD_COUNT_OFFSET,
)

# The header fields that follow from the records; `size_bytes` is the whole batch as it is sent.
cdef struct BatchHeader:
    Py_ssize_t size_bytes
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int32_t record_count
    int16_t attributes


# Write all fields but the producer's and the checksum.
cdef inline void put_header(unsigned char* at, const BatchHeader* header) noexcept nogil:
    store_int64(at + <int>BASE_OFFSET_OFFSET, 0)
    store_int32(at + <int>BATCH_LENGTH_OFFSET, <int32_t>(header.size_bytes - LOG_OVERHEAD_BYTES))
    store_int32(at + <int>PARTITION_LEADER_EPOCH_OFFSET, -1)
    at[<int>MAGIC_OFFSET] = MAGIC_V2
    store_int16(at + <int>ATTRIBUTES_OFFSET, header.attributes)
    store_int32(at + <int>LAST_OFFSET_DELTA_OFFSET, header.record_count - 1)
    store_int64(at + <int>BASE_TIMESTAMP_OFFSET, header.base_timestamp_ms)
    store_int64(at + <int>MAX_TIMESTAMP_OFFSET, header.max_timestamp_ms)
    store_int32(at + <int>RECORD_COUNT_OFFSET, header.record_count)


# Write the producer's fields; -1 for each without idempotence.
cdef inline void put_producer(
    unsigned char* at, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
) noexcept nogil:
    store_int64(at + <int>PRODUCER_ID_OFFSET, producer_id)
    store_int16(at + <int>PRODUCER_EPOCH_OFFSET, producer_epoch)
    store_int32(at + <int>BASE_SEQUENCE_OFFSET, base_sequence)


# Write the CRC-32C of all bytes from the attributes to the end of the batch.
cdef inline void put_checksum(unsigned char* at, uint32_t checksum) noexcept nogil:
    store_int32(at + <int>CRC_OFFSET, <int32_t>checksum)
