# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Finds the last offset in a Fetch response from the batch headers, without decoding records.

Thread-safety: any thread; functions of their arguments, and immutable values.
Source: RecordBatch and LegacyRecord (clients 4.3.1) for the positions of the fields.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t

from kprod._core.endian cimport load_int32, load_int64
from kprod._core.layout cimport (
    BATCH_LENGTH_OFFSET,
    BATCH_OVERHEAD_BYTES,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD_BYTES,
    MAGIC_OFFSET,
    MAGIC_V2,
    PARTITION_LEADER_EPOCH_OFFSET,
)

cdef enum:
    NO_EPOCH = -1

NONE_FOLLOWS = INT64_MIN
"""In place of the next offset, if the batch ends at the last offset there is, or beyond."""


@cython.final
cdef class BatchEnd:
    """The end of the last whole batch; immutable.

    Args:
        next_offset: Offset after the batch's last one, or `NONE_FOLLOWS`.
        leader_epoch: The batch's leader epoch; -1 for a format without one.

    Attributes:
        next_offset: Offset after the batch's last one, or `NONE_FOLLOWS`.
        leader_epoch: The batch's leader epoch; -1 for a format without one.
    """

    def __init__(self, int64_t next_offset, int64_t leader_epoch):
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch


cpdef BatchEnd last_batch(memoryview records):
    """Find the end of the last whole batch or message.

    An impossible header ends the search; decoding the records then reports it.

    Args:
        records: Consecutive batches, contiguous bytes; the last may be cut off.

    Returns:
        The end; None if there is no whole batch.

    Raises:
        BufferError: The view has gaps.
        ValueError: It was released.
    """
    cdef Py_buffer view
    if records is None:
        return None
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        return _last_of(<const unsigned char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef BatchEnd _last_of(const unsigned char* start, Py_ssize_t size):
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t last = -1
    cdef int32_t length
    while size - at >= LOG_OVERHEAD_BYTES:
        length = load_int32(start + at + BATCH_LENGTH_OFFSET)
        if length < 0 or length > size - at - LOG_OVERHEAD_BYTES:
            break
        last = at
        at += LOG_OVERHEAD_BYTES + length
    return None if last < 0 else _end_of(start + last, at - last)


cdef BatchEnd _end_of(const unsigned char* batch, Py_ssize_t size):
    cdef BatchEnd end = BatchEnd.__new__(BatchEnd)
    cdef int64_t offset = load_int64(batch)
    cdef int64_t delta = 0
    end.leader_epoch = NO_EPOCH
    if size >= BATCH_OVERHEAD_BYTES and (batch + MAGIC_OFFSET)[0] == MAGIC_V2:
        end.leader_epoch = load_int32(batch + PARTITION_LEADER_EPOCH_OFFSET)
        delta = load_int32(batch + LAST_OFFSET_DELTA_OFFSET)
    if offset < 0:
        end.next_offset = 0  # no position is below it
    elif offset > INT64_MAX - 1 - max(delta, 0):
        end.next_offset = INT64_MIN
    else:
        end.next_offset = offset + delta + 1
    return end
