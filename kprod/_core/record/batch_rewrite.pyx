# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -Os
"""The fields that a leader rewrites in a batch of format V2: offset, leader epoch, append time.

The batch is changed in place and never copied. The checksum does not cover base offset and leader
epoch; after any other change it is computed again.

Thread-safety: no other thread may use the buffer during a call.
Source: Kafka DefaultRecordBatch and LogValidator (clients 4.3.1).
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t


from kprod._core.endian cimport load_int16, load_int32, store_int16, store_int32, store_int64
from kprod._core.checksum cimport crc32c
from kprod._core.layout cimport (
    ATTRIBUTES_OFFSET,
    BASE_OFFSET_OFFSET,
    BATCH_LENGTH_OFFSET,
    BATCH_OVERHEAD_BYTES,
    CRC_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    MAX_TIMESTAMP_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET,
    TIMESTAMP_TYPE_MASK,
)

from kprod.errors import CorruptRecord


cdef unsigned char* _writable_batch(object buffer, Py_buffer* held) except NULL:
    """Acquire a writable buffer that begins with a whole batch; the caller releases it."""
    cdef unsigned char* start
    cdef int64_t size
    PyObject_GetBuffer(buffer, held, PyBUF_WRITABLE)
    start = <unsigned char*>held.buf
    if held.len >= BATCH_OVERHEAD_BYTES and (start + MAGIC_OFFSET)[0] == MAGIC_V2:
        size = LOG_OVERHEAD_BYTES + <int64_t>load_int32(start + BATCH_LENGTH_OFFSET)
        if size >= BATCH_OVERHEAD_BYTES and size <= held.len:
            return start
    PyBuffer_Release(held)
    raise CorruptRecord(f"{len(buffer)} bytes do not begin with a whole batch of format V2")


def rewrite_offsets(buffer, int64_t base_offset, int32_t partition_leader_epoch):
    """Set base offset and leader epoch, which the checksum does not cover.

    Args:
        buffer: Writable, begins with a whole batch.
        base_offset: Offset of its first record.
        partition_leader_epoch: Epoch of the leader that appends the batch; -1 for unknown.

    Raises:
        CorruptRecord: The buffer does not begin with a whole batch.
    """
    cdef Py_buffer held
    cdef unsigned char* start = _writable_batch(buffer, &held)
    store_int64(start + BASE_OFFSET_OFFSET, base_offset)
    store_int32(start + PARTITION_LEADER_EPOCH_OFFSET, partition_leader_epoch)
    PyBuffer_Release(&held)


def rewrite_log_append_time(buffer, int64_t timestamp_ms):
    """Stamp a batch with the broker's time and recompute its checksum.

    Args:
        buffer: Writable, begins with a whole batch.
        timestamp_ms: Milliseconds since 1970; becomes the timestamp of all its records.

    Raises:
        CorruptRecord: The buffer does not begin with a whole batch.
    """
    cdef Py_buffer held
    cdef unsigned char* start = _writable_batch(buffer, &held)
    cdef int16_t attributes = load_int16(start + ATTRIBUTES_OFFSET)
    store_int16(start + ATTRIBUTES_OFFSET, <int16_t>(attributes | TIMESTAMP_TYPE_MASK))
    store_int64(start + MAX_TIMESTAMP_OFFSET, timestamp_ms)
    PyBuffer_Release(&held)
    rewrite_crc(buffer)


def rewrite_crc(buffer):
    """Compute the checksum of a batch and store it.

    Args:
        buffer: Writable, begins with a whole batch.

    Raises:
        CorruptRecord: The buffer does not begin with a whole batch.
    """
    cdef Py_buffer held
    cdef unsigned char* start = _writable_batch(buffer, &held)
    cdef uint32_t checksum
    cdef int64_t size = LOG_OVERHEAD_BYTES + <int64_t>load_int32(start + BATCH_LENGTH_OFFSET)
    try:
        checksum = crc32c(memoryview(buffer)[<Py_ssize_t>ATTRIBUTES_OFFSET:size], 0)
        store_int32(start + CRC_OFFSET, <int32_t>checksum)
    finally:
        PyBuffer_Release(&held)
