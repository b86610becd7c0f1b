# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The most that a batch of one record takes, to be compared with the limits before it is encoded.

Thread-safety: any thread.
"""

from libc.stdint cimport int32_t

from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX
from kprod._core.varint cimport varint_size


cpdef Py_ssize_t record_size_bound(
    Py_ssize_t key_bytes, Py_ssize_t value_bytes, Py_ssize_t headers_bytes
) noexcept:
    """Return an upper bound of the size of a batch that holds only this record.

    Args:
        key_bytes: −1 for null.
        value_bytes: −1 for null.
        headers_bytes: Size of the encoded header section, count included; 1 without headers.

    Source: Kafka AbstractRecords.estimateSizeInBytesUpperBound (clients 4.3.1).
    """
    return (
        <Py_ssize_t>BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES_MAX
        + varint_size(<int32_t>key_bytes) + max(key_bytes, 0)
        + varint_size(<int32_t>value_bytes) + max(value_bytes, 0) + headers_bytes
    )
