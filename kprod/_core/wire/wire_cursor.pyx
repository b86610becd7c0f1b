# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A cursor in the bytes of a message: the limits of its reading, and the skipping of values.

The steps common to all fields are inline in the `.pxd`. This module has the errors that they raise,
the count of elements under `Bounds`, and the skipping of unwanted values. The length of a skipped
value is checked as if it were read.

Thread-safety: each reading has its own cursor.
Source: KIP-482 and the protocol guide of Apache Kafka 4.3.1.
"""

from libc.stdint cimport int8_t, int64_t

from kprod._core.wire.wire_plan cimport ARRAY, FLOAT64, STRUCT, UUID, FieldPlan, StructPlan
from kprod._core.wire.wire_bounds cimport Bounds

from kprod.errors import RemoteProtocolError


cdef class Reader:
    """A position in bytes that stay in place while it lives."""


cdef int fail(Reader reader, FieldPlan field, str text) except -1:
    raise RemoteProtocolError(f"{field.path}, at byte {reader.position}: {text}")


cdef int fail_short(Reader reader, FieldPlan field, Py_ssize_t size) except -1:
    fail(reader, field, f"{size} bytes are needed and {reader.end - reader.position} remain")


cdef int fail_length(Reader reader, FieldPlan field, int64_t length) except -1:
    fail(reader, field, "null is not allowed" if length == -1 else f"negative length {length}")


cdef int fail_count(Reader reader, FieldPlan field, Py_ssize_t count) except -1:
    fail(reader, field, f"array count {count}, each element at least {field.element.size_min} "
         f"bytes, {reader.end - reader.position} bytes remain")


cdef int fail_tags(Reader reader, FieldPlan field, int64_t count) except -1:
    fail(reader, field, f"{count} tagged fields, {TAGS_MAX} are allowed")


cdef int count_elements(Reader reader, FieldPlan field, Py_ssize_t count) except -1:
    """Check the number of elements in all arrays of this name against the request's limit."""
    cdef Bounds bounds = reader.bounds
    cdef object most = bounds.totals.get(field.name)
    cdef object more = bounds.element_bytes.get(field.name)
    if most is not None:
        total = reader.counts.get(field.name, 0) + count
        reader.counts[field.name] = total
        if total > most:
            fail(reader, field, f"array elements: {total}; the most that can be meant: {most}")
    if more is not None:
        reader.memory_left += <int64_t>more * count
    return 0


cdef int skip_value(FieldPlan field, Reader reader) except -1:
    """Skip a value; its lengths are checked as if it were read."""
    cdef int kind = field.kind
    cdef Py_ssize_t count
    cdef Py_ssize_t _i
    if kind <= FLOAT64 or kind == UUID:
        take(reader, field, field.size_min)
        return 0
    if kind == STRUCT:
        if not field.nullable or <int8_t>take(reader, field, 1)[0] >= 0:
            skip_rest(field.struct, reader, 0)
        return 0
    count = read_length(reader, field)
    if count <= 0:
        return 0
    if kind != ARRAY:
        take(reader, field, count)
        return 0
    check_count(reader, field, count)
    if field.element.kind <= FLOAT64 or field.element.kind == UUID:
        take(reader, field, count * field.element.size_min)
        return 0
    for _i in range(count):
        skip_value(field.element, reader)
    return 0


cdef int skip_rest(StructPlan plan, Reader reader, Py_ssize_t first) except -1:
    """Skip a structure from one of its fields on."""
    cdef Py_ssize_t i
    cdef int64_t count
    for i in range(first, len(plan.fields)):
        skip_value(<FieldPlan>plan.fields[i], reader)
    if plan.flexible:
        count = tag_count(plan, reader)
        while count > 0:
            count -= 1
            read_uvarint(reader, plan.tags)
            take(reader, plan.tags, read_uvarint(reader, plan.tags))
    return 0
