# The newest offset of each key, for compaction.

from libc.stdint cimport int64_t, uint8_t, uint64_t


# 24 bytes; `above` is the offset plus one, so that memory of zeros has no key.
cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t above


cdef class OffsetMap:
    cdef Slot* _slots
    cdef Py_ssize_t _slot_count
    cdef Py_ssize_t _keys_max
    cdef Py_ssize_t _count
    cdef uint64_t[2] _secret
    cdef readonly int64_t latest_offset
    cdef bint _put_all(self, const Slot* hashed, int count) noexcept
    cdef int _allocate(self) except -1
    cdef void _hash(self, const uint8_t* key, Py_ssize_t size, Slot* hashed) noexcept
    cdef Slot* _place(self, const Slot* hashed) noexcept
    cdef void _prefetch(self, const Slot* hashed) noexcept
