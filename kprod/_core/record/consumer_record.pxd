# A record as an application reads it, and the partition that it came from.

from libc.stdint cimport int8_t, int32_t, int64_t

cdef enum:
    # Timestamp type of a record in format V0, which has no timestamps.
    NO_TIMESTAMP_TYPE = -1
    NO_LEADER_EPOCH = -1


cdef class PartitionStamp:
    cdef readonly str topic
    cdef readonly int32_t partition
    # The headers that were decoded last; their keys are reused.
    cdef tuple recent_headers


cdef class ConsumerRecord:
    cdef PartitionStamp stamp
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly object key
    cdef readonly object value
    # None for no headers; bytes as long as they are encoded; then a tuple.
    cdef object encoded_headers
    cdef int32_t header_count
    cdef int32_t epoch
    cdef int8_t time_type
    cdef tuple _decode_headers(self)


# An error that names topic, partition and offset.
cdef object corrupt_record(PartitionStamp stamp, int64_t offset, object error)
