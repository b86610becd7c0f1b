# cython: language_level=3
"""The end of the records in a response."""

from libc.stdint cimport int64_t


cdef class BatchEnd:
    cdef readonly int64_t next_offset
    cdef readonly int64_t leader_epoch


cpdef BatchEnd last_batch(memoryview records)
