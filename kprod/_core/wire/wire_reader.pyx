# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Read a message by its plan, from untrusted bytes.

Every length is compared with the remaining bytes before it is used, and a count of elements with
those bytes divided by an element's minimum size, so memory is bounded by the input. Unknown tagged
fields are skipped. The schema limits the depth. Every fault raises `RemoteProtocolError`.

Python objects take up to a hundred times the memory of the bytes that they are read from. So a
reader of responses passes `Bounds`, which follow from the request: each object is counted before
it is created, unwanted elements are skipped unread, and a response that would take more memory is
rejected. Under bounds equal arrays of 32-bit integers share one tuple, and equal integers one
object.

The result is a plain dict: a copy of the template with all defaults, which the fields present then
replace. So the order of keys, and the dict's size, are fixed before the first value is read.

Thread-safety: each call has its own reader.
Source: KIP-482 and the protocol guide of Apache Kafka 4.3.1; limits from ByteBufferAccessor.java.
"""

from uuid import UUID as _UUID, SafeUUID as _SafeUUID

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int64_t, uint16_t, uint64_t
from libc.string cimport memcpy

from kprod._core.endian cimport load_int16, load_int32, load_int64
from kprod._core.wire.wire_plan cimport (
    ARRAY, BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST_BYTES, POINTER_BYTES,
    STRING, STRING_BYTES_MAX, STRUCT, UINT16, UUID, UUID_BYTES, FieldPlan, StructPlan,
)
from kprod._core.wire.wire_bounds cimport Bounds
from kprod._core.wire.wire_cursor cimport (
    Reader, charge, check_count, count_elements, fail, read_length, read_uvarint, skip_rest,
    skip_value, tag_count, take,
)

from kprod.errors import RemoteProtocolError


cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object, object, object) except -1


cdef enum:
    # As in wire_plan.pxd.
    INTEGER_BYTES = 32
    TEXT_BYTES = 80
    UUID_OBJECT_BYTES = 128
    VIEW_BYTES = 512
    # CPython has one object for each of these.
    SMALL_MIN = -5
    SMALL_MAX = 256
    # Powers of two. The node ids and leader epochs of a large cluster fit together.
    INTEGERS_SHARED = 2048
    ARRAYS_SHARED = 256
    TUPLE_BYTES = 64

cdef object ZERO_UUID = _UUID(int=0)
cdef object UNKNOWN_SAFETY = _SafeUUID.unknown


def decode(StructPlan plan not None, buffer, Bounds bounds=None):
    """Read a structure that fills a buffer.

    Args:
        plan: Plan of the structure.
        buffer: Any bytes-like object; `records` fields of the result refer to it.
        bounds: The bounds; None for no limits beyond the input's size.

    Returns:
        Every field of the structure, absent ones with their default.

    Raises:
        RemoteProtocolError: The bytes are not this structure, end early, continue after it, or hold
            more than the bounds allow.
    """
    body, end = decode_prefix(plan, buffer, bounds)
    size = memoryview(buffer).nbytes
    if end != size:
        raise RemoteProtocolError(f"{plan.where} ends at byte {end}, but {size - end} bytes follow")
    return body


def decode_prefix(StructPlan plan not None, buffer, Bounds bounds=None):
    """Read the structure at the start of a buffer.

    Args:
        plan: Plan of the structure.
        buffer: Any bytes-like object.
        bounds: The bounds, as for `decode`.

    Returns:
        The fields, and the position of the structure's end in the buffer.

    Raises:
        RemoteProtocolError: The bytes are not this structure, end early, or hold too much.
    """
    cdef Py_buffer view
    cdef Reader reader = Reader.__new__(Reader)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        reader.source = buffer
        reader.start = <const unsigned char *>view.buf
        reader.position = 0
        reader.end = view.len
        if bounds is not None:
            reader.bounds = bounds
            reader.memory_left = bounds.memory_bytes + view.len
            reader.counts = {}
            reader.integers = [None] * INTEGERS_SHARED
            reader.shared = [None] * ARRAYS_SHARED
        return _read_struct(plan, reader, None, None), reader.position
    finally:
        PyBuffer_Release(&view)


cdef object _read_value(FieldPlan field, Reader reader):
    cdef int kind = field.kind
    if kind == INT32:
        return _integer(reader, field, load_int32(take(reader, field, 4)))
    if kind == INT16:
        return _integer(reader, field, load_int16(take(reader, field, 2)))
    if kind == STRING:
        return _read_string(field, reader)
    if kind == ARRAY:
        return _read_array(field, reader)
    if kind == STRUCT:
        if field.nullable and <int8_t>take(reader, field, 1)[0] < 0:
            return None
        return _read_struct(field.struct, reader, None, None)
    if kind == INT64:
        return _integer(reader, field, load_int64(take(reader, field, 8)))
    if kind == INT8:
        return PyLong_FromLong(<int8_t>take(reader, field, 1)[0])
    if kind == BOOL:
        return take(reader, field, 1)[0] != 0
    if kind == UUID:
        return _read_uuid(field, reader)
    if kind == UINT16:
        return _integer(reader, field, <uint16_t>load_int16(take(reader, field, 2)))
    if kind == FLOAT64:
        return _read_float(field, reader)
    return _read_bytes(field, reader)


cdef object _integer(Reader reader, FieldPlan field, int64_t value):
    cdef object known
    cdef Py_ssize_t at
    if reader.bounds is None or SMALL_MIN <= value <= SMALL_MAX:
        return PyLong_FromLongLong(value)
    at = value & (INTEGERS_SHARED - 1)
    known = reader.integers[at]
    if known is None or <int64_t>known != value:
        charge(reader, field, INTEGER_BYTES)
        known = reader.integers[at] = PyLong_FromLongLong(value)
    return known


cdef int64_t _text_bytes(const unsigned char *at, Py_ssize_t length) noexcept:
    """Return the memory of a str, found from its UTF-8: one, two or four bytes per character."""
    cdef Py_ssize_t i
    cdef Py_ssize_t count = 0
    cdef int width = 1
    for i in range(length):
        count += (at[i] & 0xC0) != 0x80
        if at[i] >= 0xF0:
            width = 4
        elif at[i] >= 0xC4 and width == 1:
            width = 2
    return TEXT_BYTES + count * width


cdef object _read_string(FieldPlan field, Reader reader):
    cdef Py_ssize_t length = read_length(reader, field)
    cdef const unsigned char *at
    if length < 0:
        return None
    if length > STRING_BYTES_MAX:
        fail(reader, field, f"string of {length} bytes, {STRING_BYTES_MAX} are allowed")
    at = take(reader, field, length)
    if reader.bounds is not None:
        charge(reader, field, _text_bytes(at, length))
    try:
        return PyUnicode_DecodeUTF8(<char *>at, length, NULL)
    except UnicodeDecodeError as error:
        reader.position -= length
        fail(reader, field, f"not UTF-8: {error.reason}")


cdef object _read_bytes(FieldPlan field, Reader reader):
    cdef Py_ssize_t length = read_length(reader, field)
    cdef const unsigned char *at
    if length < 0:
        return None
    at = take(reader, field, length)
    if reader.bounds is not None:
        charge(reader, field, LIST_BYTES + length if field.kind == BYTES else VIEW_BYTES)
    if field.kind == BYTES:
        return PyBytes_FromStringAndSize(<char *>at, length)
    whole = memoryview(reader.source)
    if whole.format != "B" or whole.ndim != 1:
        whole = whole.cast("B")
    return whole[reader.position - length:reader.position]


cdef object _read_uuid(FieldPlan field, Reader reader):
    cdef const unsigned char *at = take(reader, field, UUID_BYTES)
    if load_int64(at) == 0 and load_int64(at + 8) == 0:
        return ZERO_UUID
    if reader.bounds is not None:
        charge(reader, field, UUID_OBJECT_BYTES)
    # The constructor of UUID, all Python, would cost more than the rest of a topic. UUIDs reject
    # assignment, so its two slots are filled as its own __setstate__ does.
    value = _UUID.__new__(_UUID)
    PyObject_GenericSetAttr(value, "int", int.from_bytes((<char *>at)[:UUID_BYTES], "big"))
    PyObject_GenericSetAttr(value, "is_safe", UNKNOWN_SAFETY)
    return value


cdef object _read_float(FieldPlan field, Reader reader):
    cdef int64_t bits = load_int64(take(reader, field, 8))
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    if reader.bounds is not None:
        charge(reader, field, INTEGER_BYTES)
    return value


cdef object _read_array(FieldPlan field, Reader reader):
    cdef Py_ssize_t count = read_length(reader, field)
    cdef Py_ssize_t i
    cdef FieldPlan element = field.element
    cdef StructPlan plan
    cdef const unsigned char *at
    cdef list result
    cdef object item
    if count < 0:
        return None
    check_count(reader, field, count)
    if reader.bounds is not None:
        wanted = reader.bounds.chosen.get(field.name)
        if wanted is not None:
            return _read_chosen(field, reader, count, wanted[0], wanted[1])
        count_elements(reader, field, count)
        if element.kind == INT32:
            return _read_shared(field, reader, count)
        charge(reader, field, LIST_BYTES + POINTER_BYTES * count)
    result = PyList_New(count)
    if element.kind == STRUCT and not element.nullable:
        plan = element.struct
        for i in range(count):
            item = _read_struct(plan, reader, None, None)
            Py_INCREF(item)
            PyList_SET_ITEM(result, i, item)
        return result
    if element.kind == INT32:
        at = take(reader, field, 4 * count)
        for i in range(count):
            item = PyLong_FromLong(load_int32(at + 4 * i))
            Py_INCREF(item)
            PyList_SET_ITEM(result, i, item)
        return result
    for i in range(count):
        item = _read_value(element, reader)
        Py_INCREF(item)
        PyList_SET_ITEM(result, i, item)
    return result


cdef list _read_chosen(
        FieldPlan field, Reader reader, Py_ssize_t count, str key, object wanted):
    """Read the elements whose `key` is wanted; skip the others."""
    cdef list result = []
    cdef Py_ssize_t _i
    charge(reader, field, LIST_BYTES)
    for _i in range(count):
        item = _read_struct(field.element.struct, reader, key, wanted)
        if item is not None:
            count_elements(reader, field, 1)
            charge(reader, field, 2 * POINTER_BYTES)
            result.append(item)
    return result


cdef tuple _read_shared(FieldPlan field, Reader reader, Py_ssize_t count):
    """Read 32-bit integers as a tuple that equal arrays share."""
    cdef const unsigned char *at = take(reader, field, 4 * count)
    cdef Py_ssize_t slot
    cdef Py_ssize_t i
    cdef uint64_t mixed = 0
    cdef list numbers
    cdef object known
    if count == 0:
        return ()
    for i in range(count):
        mixed = mixed * 31 + <uint64_t>load_int32(at + 4 * i)
    slot = <Py_ssize_t>(mixed & (ARRAYS_SHARED - 1))
    known = reader.shared[slot]
    if known is not None and _holds(<tuple>known, at, count):
        return <tuple>known
    # For a moment both the list and the tuple exist.
    charge(reader, field, LIST_BYTES + TUPLE_BYTES + 2 * POINTER_BYTES * count)
    numbers = []
    for i in range(count):
        numbers.append(_integer(reader, field, load_int32(at + 4 * i)))
    reader.memory_left += LIST_BYTES + POINTER_BYTES * count
    known = reader.shared[slot] = tuple(numbers)
    return <tuple>known


cdef bint _holds(tuple known, const unsigned char *at, Py_ssize_t count) except -1:
    """Return whether a tuple equals the array of `count` 32-bit integers at an address."""
    cdef Py_ssize_t i
    if len(known) != count:
        return False
    for i in range(count):
        if <int64_t>known[i] != load_int32(at + 4 * i):
            return False
    return True


cdef dict _read_struct(StructPlan plan, Reader reader, str key, object wanted):
    """Read a structure; if its `key` is not wanted, skip the rest and return None."""
    cdef FieldPlan field
    cdef tuple fields = plan.fields
    cdef Py_ssize_t i
    cdef dict result
    cdef frozenset unread = None
    cdef int64_t memory_left = reader.memory_left
    if reader.bounds is not None:
        charge(reader, plan.tags, plan.dict_bytes)
        unread = reader.bounds.unread
    result = PyDict_Copy(plan.template)
    for i in range(len(fields)):
        field = <FieldPlan>fields[i]
        if unread and field.name in unread:
            skip_value(field, reader)
            continue
        value = _read_value(field, reader)
        PyDict_SetItem(result, field.name, value)
        if key is not None and field.name == key:
            is_wanted = value in wanted
            if not is_wanted:
                reader.memory_left = memory_left
                skip_rest(plan, reader, i + 1)
                return None
    fields = plan.fresh
    for i in range(len(fields)):
        field = <FieldPlan>fields[i]
        PyDict_SetItem(result, field.name, field.fresh_default())
    if plan.flexible:
        _read_tags(plan, reader, result)
    return result


cdef int _read_tags(StructPlan plan, Reader reader, dict result) except -1:
    cdef int64_t count = tag_count(plan, reader)
    cdef int64_t tag, size
    cdef FieldPlan field
    cdef Py_ssize_t end
    while count > 0:
        count -= 1
        tag = read_uvarint(reader, plan.tags)
        size = read_uvarint(reader, plan.tags)
        take(reader, plan.tags, size)
        for field in plan.tagged:
            if field.tag == tag:
                break
        else:
            continue
        if reader.bounds is not None and field.name in reader.bounds.unread:
            continue
        end = reader.end
        reader.end = reader.position
        reader.position -= size
        PyDict_SetItem(result, field.name, _read_value(field, reader))
        if reader.position != reader.end:
            fail(reader, field, f"of {size} bytes, {reader.end - reader.position} are left over")
        reader.end = end
    return 0
