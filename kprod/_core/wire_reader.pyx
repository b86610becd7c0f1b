# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Read a message by its plan, trusting nothing.

Every length is compared with the bytes that remain before it is used, a count of elements with
those bytes divided by the least that one element takes; so memory is bounded by the input. Unknown
tagged fields are skipped. Depth is the schema's. Whatever is wrong is one `RemoteProtocolError`.

The result is a plain dict: the template of all defaults is copied and the fields present are put
over it, so a key's place, and the dict's size, are settled before the first value is read.

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
from kprod._core.varint cimport take_unsigned
from kprod._core.wire cimport (
    ARRAY, BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, STRING, STRING_BYTES_MAX, STRUCT,
    UINT16, UUID, UUID_BYTES, FieldPlan, StructPlan,
)

from kprod.errors import RemoteProtocolError


cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object, object, object) except -1


cdef enum:
    TAGS_MAX = 1024  # Far above the handful that Kafka defines; bounds the work for hostile input.

cdef object ZERO_UUID = _UUID(int=0)
cdef object UNKNOWN_SAFETY = _SafeUUID.unknown


def decode(StructPlan plan not None, buffer):
    """Read a structure that fills a buffer.

    Args:
        plan: Of the structure.
        buffer: Any bytes-like object; `records` fields of the result refer to it.

    Returns:
        Every field of the structure, absent ones with their default.

    Raises:
        RemoteProtocolError: The bytes are not this structure, end early, or go on after it.
    """
    body, end = decode_prefix(plan, buffer)
    size = memoryview(buffer).nbytes
    if end != size:
        raise RemoteProtocolError(f"{plan.where} ends at byte {end}, but {size - end} bytes follow")
    return body


def decode_prefix(StructPlan plan not None, buffer):
    """Read the structure that a buffer begins with.

    Args:
        plan: Of the structure.
        buffer: Any bytes-like object.

    Returns:
        The fields, and where the structure ends in the buffer.

    Raises:
        RemoteProtocolError: The bytes are not this structure, or end early.
    """
    cdef Py_buffer view
    cdef Reader reader = Reader.__new__(Reader)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        reader.source = buffer
        reader.start = <const unsigned char *>view.buf
        reader.position = 0
        reader.end = view.len
        return _read_struct(plan, reader), reader.position
    finally:
        PyBuffer_Release(&view)


cdef class Reader:
    """A position in bytes that do not move while it lives."""


cdef int _fail(Reader reader, FieldPlan field, str text) except -1:
    raise RemoteProtocolError(f"{field.path}, at byte {reader.position}: {text}")


cdef inline const unsigned char *_take(
        Reader reader, FieldPlan field, Py_ssize_t size) except NULL:
    """Step over `size` ≥ 0 bytes and return where they begin."""
    cdef const unsigned char *at = reader.start + reader.position
    if size > reader.end - reader.position:
        _fail(reader, field, f"{size} bytes are needed and {reader.end - reader.position} remain")
    reader.position += size
    return at


cdef int64_t _read_uvarint(Reader reader, FieldPlan field) except -1:
    """Read an unsigned varint of at most 32 bits."""
    cdef uint64_t value = 0
    cdef const unsigned char *at = reader.start + reader.position
    at = take_unsigned(at, reader.start + reader.end, 32, &value)
    if at is NULL:
        _fail(reader, field, "a varint ends early or exceeds 32 bits")
    reader.position = at - reader.start
    return <int64_t>value


cdef Py_ssize_t _read_length(Reader reader, FieldPlan field) except -2:
    """Read the length of a string, bytes or array; −1 is null."""
    cdef int64_t length
    if field.compact:
        length = _read_uvarint(reader, field) - 1
    elif field.kind == STRING:
        length = load_int16(_take(reader, field, 2))
    else:
        length = load_int32(_take(reader, field, 4))
    if length < 0 and not (length == -1 and field.nullable):
        _fail(reader, field, "null is not allowed" if length == -1 else f"negative length {length}")
    return <Py_ssize_t>length


cdef object _read_value(FieldPlan field, Reader reader):
    cdef int kind = field.kind
    if kind == INT32:
        return PyLong_FromLong(load_int32(_take(reader, field, 4)))
    if kind == INT16:
        return PyLong_FromLong(load_int16(_take(reader, field, 2)))
    if kind == STRING:
        return _read_string(field, reader)
    if kind == ARRAY:
        return _read_array(field, reader)
    if kind == STRUCT:
        if field.nullable and <int8_t>_take(reader, field, 1)[0] < 0:
            return None
        return _read_struct(field.struct, reader)
    if kind == INT64:
        return PyLong_FromLongLong(load_int64(_take(reader, field, 8)))
    if kind == INT8:
        return PyLong_FromLong(<int8_t>_take(reader, field, 1)[0])
    if kind == BOOL:
        return _take(reader, field, 1)[0] != 0
    if kind == UUID:
        return _read_uuid(field, reader)
    if kind == UINT16:
        return PyLong_FromLong(<uint16_t>load_int16(_take(reader, field, 2)))
    if kind == FLOAT64:
        return _read_float(field, reader)
    return _read_bytes(field, reader)


cdef object _read_string(FieldPlan field, Reader reader):
    cdef Py_ssize_t length = _read_length(reader, field)
    cdef const unsigned char *at
    if length < 0:
        return None
    if length > STRING_BYTES_MAX:
        _fail(reader, field, f"string of {length} bytes, {STRING_BYTES_MAX} are allowed")
    at = _take(reader, field, length)
    try:
        return PyUnicode_DecodeUTF8(<char *>at, length, NULL)
    except UnicodeDecodeError as error:
        reader.position -= length
        _fail(reader, field, f"not UTF-8: {error.reason}")


cdef object _read_bytes(FieldPlan field, Reader reader):
    cdef Py_ssize_t length = _read_length(reader, field)
    cdef const unsigned char *at
    if length < 0:
        return None
    at = _take(reader, field, length)
    if field.kind == BYTES:
        return PyBytes_FromStringAndSize(<char *>at, length)
    whole = memoryview(reader.source)
    if whole.format != "B" or whole.ndim != 1:
        whole = whole.cast("B")
    return whole[reader.position - length:reader.position]


cdef object _read_uuid(FieldPlan field, Reader reader):
    cdef const unsigned char *at = _take(reader, field, UUID_BYTES)
    if load_int64(at) == 0 and load_int64(at + 8) == 0:
        return ZERO_UUID
    # Its constructor, all Python, would cost more than the rest of a topic. A UUID refuses
    # assignment, so its two slots are filled as its own __setstate__ does.
    value = _UUID.__new__(_UUID)
    PyObject_GenericSetAttr(value, "int", int.from_bytes((<char *>at)[:UUID_BYTES], "big"))
    PyObject_GenericSetAttr(value, "is_safe", UNKNOWN_SAFETY)
    return value


cdef object _read_float(FieldPlan field, Reader reader):
    cdef int64_t bits = load_int64(_take(reader, field, 8))
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef object _read_array(FieldPlan field, Reader reader):
    cdef Py_ssize_t count = _read_length(reader, field)
    cdef Py_ssize_t i
    cdef FieldPlan element = field.element
    cdef StructPlan plan
    cdef const unsigned char *at
    cdef list result
    cdef object item
    if count < 0:
        return None
    if count > (reader.end - reader.position) // element.size_min:
        _fail(reader, field, f"array of {count} elements of at least {element.size_min} bytes, "
              f"{reader.end - reader.position} bytes remain")
    result = PyList_New(count)
    if element.kind == STRUCT and not element.nullable:
        plan = element.struct
        for i in range(count):
            item = _read_struct(plan, reader)
            Py_INCREF(item)
            PyList_SET_ITEM(result, i, item)
        return result
    if element.kind == INT32:
        at = _take(reader, field, 4 * count)
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


cdef dict _read_struct(StructPlan plan, Reader reader):
    cdef FieldPlan field
    cdef tuple fields = plan.fields
    cdef Py_ssize_t i
    cdef dict result = PyDict_Copy(plan.template)
    for i in range(len(fields)):
        field = <FieldPlan>fields[i]
        PyDict_SetItem(result, field.name, _read_value(field, reader))
    fields = plan.fresh
    for i in range(len(fields)):
        field = <FieldPlan>fields[i]
        PyDict_SetItem(result, field.name, field.fresh_default())
    if plan.flexible:
        _read_tags(plan, reader, result)
    return result


cdef int _read_tags(StructPlan plan, Reader reader, dict result) except -1:
    cdef int64_t count = _read_uvarint(reader, plan.tags)
    cdef int64_t tag, size
    cdef FieldPlan field
    cdef Py_ssize_t end
    if count > TAGS_MAX:
        _fail(reader, plan.tags, f"{count} tagged fields, {TAGS_MAX} are allowed")
    while count > 0:
        count -= 1
        tag = _read_uvarint(reader, plan.tags)
        size = _read_uvarint(reader, plan.tags)
        _take(reader, plan.tags, size)
        for field in plan.tagged:
            if field.tag == tag:
                break
        else:
            continue
        end = reader.end
        reader.end = reader.position
        reader.position -= size
        PyDict_SetItem(result, field.name, _read_value(field, reader))
        if reader.position != reader.end:
            _fail(reader, field, f"of {size} bytes, {reader.end - reader.position} are left over")
        reader.end = end
    return 0
