# cython: language_level=3
"""Protocol primitives and the plans that the table-driven codec runs."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t load_uint16(const unsigned char *at) noexcept nogil:
    return <uint16_t>((at[0] << 8) | at[1])


cdef inline uint32_t load_uint32(const unsigned char *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline uint64_t load_uint64(const unsigned char *at) noexcept nogil:
    return (<uint64_t>load_uint32(at) << 32) | load_uint32(at + 4)


cdef inline void store_big_endian(unsigned char *at, uint64_t value, int size) noexcept nogil:
    """Write the low `size` bytes of a value, most significant first."""
    cdef int i
    for i in range(size):
        at[i] = <unsigned char>(value >> (8 * (size - 1 - i)))


cdef inline int uvarint_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline int store_uvarint(unsigned char *at, uint64_t value) noexcept nogil:
    """Write an unsigned varint; the caller has made room for `uvarint_size` bytes."""
    cdef int size = 0
    while value >= 0x80:
        at[size] = <unsigned char>(value | 0x80)
        value >>= 7
        size += 1
    at[size] = <unsigned char>value
    return size + 1


cdef class Reader:
    cdef object source
    cdef const unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t end


cdef class Writer:
    cdef PyObject *buffer
    cdef unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity

    cdef unsigned char *grow(self, Py_ssize_t size) except NULL
    cdef bytes finish(self)


cdef class FieldPlan:
    cdef readonly str name
    cdef readonly str path
    cdef readonly object default
    cdef readonly Py_ssize_t size_min
    cdef int kind
    cdef bint nullable
    cdef bint compact
    cdef bint ignorable
    cdef FieldPlan element
    cdef StructPlan struct
    cdef int tag
    cdef bytes default_wire

    cdef object fresh_default(self)


cdef class StructPlan:
    cdef readonly str where
    cdef readonly Py_ssize_t size_min
    cdef readonly bint flexible
    cdef tuple fields
    cdef tuple tagged
    cdef dict absent
    cdef dict template
    cdef tuple fresh
    cdef FieldPlan tags

    cdef dict fresh_dict(self)
