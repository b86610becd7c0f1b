# cython: language_level=3, cdivision=True
"""A position in bytes that stay in place while it lives, and the steps common to all fields."""

from libc.stdint cimport int64_t, uint64_t

from kprod._core.endian cimport load_int16, load_int32
from kprod._core.varint cimport take_unsigned
from kprod._core.wire.wire_plan cimport STRING, FieldPlan, StructPlan
from kprod._core.wire.wire_bounds cimport Bounds


cdef class Reader:
    cdef object source
    cdef const unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t end
    cdef Bounds bounds
    cdef int64_t memory_left
    cdef dict counts
    cdef list integers
    cdef list shared


cdef int fail(Reader reader, FieldPlan field, str text) except -1
# These raise the errors of the inline functions below, which stay short.
cdef int fail_short(Reader reader, FieldPlan field, Py_ssize_t size) except -1
cdef int fail_length(Reader reader, FieldPlan field, int64_t length) except -1
cdef int fail_count(Reader reader, FieldPlan field, Py_ssize_t count) except -1
cdef int fail_tags(Reader reader, FieldPlan field, int64_t count) except -1
cdef int count_elements(Reader reader, FieldPlan field, Py_ssize_t count) except -1
cdef int skip_value(FieldPlan field, Reader reader) except -1
cdef int skip_rest(StructPlan plan, Reader reader, Py_ssize_t first) except -1

cdef enum:
    TAGS_MAX = 1024  # Far more than Kafka defines; it bounds the work for hostile input.


# Charge memory to the bounds, which must exist, before it is used.
cdef inline int charge(Reader reader, FieldPlan field, int64_t size) except -1:
    reader.memory_left -= size
    if reader.memory_left < 0:
        fail(reader, field, "its fields would take more memory than a response to this request may")
    return 0


# Skip `size` >= 0 bytes and return the address of the first.
cdef inline const unsigned char *take(
        Reader reader, FieldPlan field, Py_ssize_t size) except NULL:
    cdef const unsigned char *at = reader.start + reader.position
    if size > reader.end - reader.position:
        fail_short(reader, field, size)
    reader.position += size
    return at


# Read an unsigned varint of at most 32 bits.
cdef inline int64_t read_uvarint(Reader reader, FieldPlan field) except -1:
    cdef uint64_t value = 0
    cdef const unsigned char *at = reader.start + reader.position
    at = take_unsigned(at, reader.start + reader.end, 32, &value)
    if at is NULL:
        fail(reader, field, "a varint ends early or exceeds 32 bits")
    reader.position = at - reader.start
    return <int64_t>value


# Read the length of a string, bytes or array; -1 for null.
cdef inline Py_ssize_t read_length(Reader reader, FieldPlan field) except -2:
    cdef int64_t length
    if field.compact:
        length = read_uvarint(reader, field) - 1
    elif field.kind == STRING:
        length = load_int16(take(reader, field, 2))
    else:
        length = load_int32(take(reader, field, 4))
    if length < 0 and not (length == -1 and field.nullable):
        fail_length(reader, field, length)
    return <Py_ssize_t>length


# Compare a count with the bytes that remain.
cdef inline int check_count(Reader reader, FieldPlan field, Py_ssize_t count) except -1:
    if count > (reader.end - reader.position) // field.element.size_min:
        fail_count(reader, field, count)
    return 0


cdef inline int64_t tag_count(StructPlan plan, Reader reader) except -1:
    cdef int64_t count = read_uvarint(reader, plan.tags)
    if count > TAGS_MAX:
        fail_tags(reader, plan.tags, count)
    return count
