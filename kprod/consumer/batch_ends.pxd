# The types of batch_ends.py, which is compiled as it stands.

from libc.stdint cimport int64_t


cdef class BatchEnd:
    cdef readonly int64_t next_offset
    cdef readonly int64_t leader_epoch
