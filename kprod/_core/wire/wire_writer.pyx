# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Write a message by its plan, rejecting values that the protocol cannot express.

A tagged field that equals its default is not sent: each is written first and removed again if its
bytes are the default's. This test is the same for every kind of field.

Thread-safety: each call has its own writer.
Source: KIP-482 and the protocol guide of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping as _Mapping
from uuid import UUID as _UUID

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from kprod._core.endian cimport store_int16, store_int32, store_int64
from kprod._core.varint cimport put_unsigned, unsigned_size
from kprod._core.wire.wire_plan cimport (
    ARRAY, BOOL, BYTES, FLOAT64, INT8, INT32, INT64, RECORDS, STRING, STRING_BYTES_MAX, STRUCT,
    UINT16, UUID, UUID_BYTES, FieldPlan, StructPlan,
)

from kprod.errors import LocalProtocolError


cdef extern from "Python.h":
    PyObject *_new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t) except NULL
    int _PyBytes_Resize(PyObject **, Py_ssize_t) except -1
    PyObject *_dict_get "PyDict_GetItemWithError"(object, object) except? NULL
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL


cdef enum:
    MESSAGE_BYTES_MAX = 0x7FFFFFFF  # The frame's size prefix is an int32.
    FIRST_CAPACITY = 256


def encode(StructPlan plan not None, body):
    """Write a structure.

    Args:
        plan: Plan of the structure.
        body: Values by field name; a missing one takes its default.

    Returns:
        The bytes.

    Raises:
        LocalProtocolError: This version cannot express a value or a key.
    """
    cdef Writer writer = Writer.__new__(Writer)
    _write_struct(plan, body, writer)
    return writer.finish()


def default_bytes(FieldPlan field not None):
    """Write a field's default in its wire form.

    Args:
        field: Any plan.

    Returns:
        The bytes.

    Raises:
        LocalProtocolError: The field cannot have this default.
    """
    cdef Writer writer = Writer.__new__(Writer)
    _write_value(field, field.fresh_default(), writer)
    return writer.finish()


cdef class Writer:
    """A byte buffer that grows at its end."""

    def __cinit__(self):
        self.buffer = _new_bytes(NULL, FIRST_CAPACITY)
        self.start = <unsigned char *><char *><object>self.buffer
        self.position = 0
        self.capacity = FIRST_CAPACITY

    def __dealloc__(self):
        Py_XDECREF(self.buffer)

    cdef unsigned char *grow(self, Py_ssize_t size) except NULL:
        """Append `size` ≥ 0 undefined bytes; return their address, valid until the next call."""
        cdef Py_ssize_t capacity
        cdef unsigned char *at
        if size > self.capacity - self.position:
            if size > MESSAGE_BYTES_MAX - self.position:
                raise LocalProtocolError(
                    f"a message would be {self.position + size} bytes or more, "
                    f"a frame holds {MESSAGE_BYTES_MAX}")
            capacity = max(2 * self.capacity, self.position + size)
            _PyBytes_Resize(&self.buffer, capacity)
            self.start = <unsigned char *><char *><object>self.buffer
            self.capacity = capacity
        at = self.start + self.position
        self.position += size
        return at

    cdef bytes finish(self):
        """Return the bytes; the writer cannot be used any more."""
        cdef bytes result
        _PyBytes_Resize(&self.buffer, self.position)
        result = <bytes>self.buffer
        Py_XDECREF(self.buffer)
        self.buffer = NULL
        return result


cdef int _reject(FieldPlan field, str text) except -1:
    raise LocalProtocolError(f"{field.path}: {text}")


cdef int _reject_type(FieldPlan field, str wanted, object value) except -1:
    if value is None:
        _reject(field, f"{wanted} is wanted, null is not allowed in this version")
    _reject(field, f"{wanted} is wanted, not {type(value).__name__}")


cdef inline int _write_uvarint(Writer writer, uint64_t value) except -1:
    put_unsigned(writer.grow(unsigned_size(value)), value)
    return 0


cdef int _write_length(FieldPlan field, Writer writer, Py_ssize_t length) except -1:
    """Write the length of a string, bytes or array; −1 for null."""
    if length > MESSAGE_BYTES_MAX - 1:
        _reject(field, f"length {length} exceeds {MESSAGE_BYTES_MAX - 1}")
    if field.compact:
        return _write_uvarint(writer, <uint64_t>(length + 1))
    if field.kind == STRING:
        store_int16(writer.grow(2), <int16_t>length)
    else:
        store_int32(writer.grow(4), <int32_t>length)
    return 0


cdef int _write_value(FieldPlan field, object value, Writer writer) except -1:
    cdef int kind = field.kind
    if value is None and field.nullable:
        if kind != STRUCT:
            return _write_length(field, writer, -1)
        writer.grow(1)[0] = 0xFF
        return 0
    if kind == ARRAY:
        return _write_array(field, value, writer)
    if kind == STRUCT:
        if field.nullable:
            writer.grow(1)[0] = 1
        return _write_struct(field.struct, value, writer)
    if kind == STRING:
        return _write_string(field, value, writer)
    if kind == BYTES or kind == RECORDS:
        return _write_bytes(field, value, writer)
    if kind == UUID:
        if not isinstance(value, _UUID):
            _reject_type(field, "a UUID", value)
        memcpy(writer.grow(UUID_BYTES), <char *>(<bytes>value.bytes), UUID_BYTES)
        return 0
    if kind == BOOL:
        if value is not True and value is not False:
            _reject_type(field, "a bool", value)
        writer.grow(1)[0] = value is True
        return 0
    if kind == FLOAT64:
        return _write_float(field, value, writer)
    return _write_int(field, value, writer)


cdef int _write_int(FieldPlan field, object value, Writer writer) except -1:
    cdef int kind = field.kind
    cdef int64_t number
    if kind == INT32:
        number = _checked(field, value, -0x80000000LL, 0x7FFFFFFF)
        store_int32(writer.grow(4), <int32_t>number)
    elif kind == INT64:
        number = _checked(field, value, <int64_t>(<uint64_t>1 << 63), 0x7FFFFFFFFFFFFFFFLL)
        store_int64(writer.grow(8), number)
    elif kind == INT8:
        number = _checked(field, value, -0x80, 0x7F)
        writer.grow(1)[0] = <unsigned char>number
    else:
        number = _checked(field, value, 0 if kind == UINT16 else -0x8000,
                          0xFFFF if kind == UINT16 else 0x7FFF)
        store_int16(writer.grow(2), <int16_t>number)
    return 0


cdef int64_t _checked(FieldPlan field, object value, int64_t low, int64_t high) except? -1:
    """Return an int within the bounds; −1 may be a value."""
    cdef int overflow = 0
    cdef int64_t number
    if not isinstance(value, int) or isinstance(value, bool):
        _reject_type(field, "an int", value)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < low or number > high:
        _reject(field, f"{value} is outside {low} to {high}")
    return number


cdef int _write_float(FieldPlan field, object value, Writer writer) except -1:
    cdef double number
    cdef int64_t bits
    if not isinstance(value, float):
        _reject_type(field, "a float", value)
    number = value
    memcpy(&bits, &number, sizeof(bits))
    store_int64(writer.grow(8), bits)
    return 0


cdef int _write_string(FieldPlan field, object value, Writer writer) except -1:
    cdef Py_ssize_t length = 0
    cdef const char *text = NULL
    if not isinstance(value, str):
        _reject_type(field, "a str", value)
    try:
        text = PyUnicode_AsUTF8AndSize(value, &length)
    except UnicodeEncodeError as error:
        _reject(field, f"not encodable as UTF-8: {error.reason}")
    if length > STRING_BYTES_MAX:
        _reject(field, f"string of {length} bytes, {STRING_BYTES_MAX} are allowed")
    _write_length(field, writer, length)
    memcpy(writer.grow(length), text, length)
    return 0


cdef int _write_bytes(FieldPlan field, object value, Writer writer) except -1:
    cdef Py_buffer view
    if isinstance(value, str):
        _reject_type(field, "a bytes-like object", value)
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        _reject_type(field, "a contiguous bytes-like object", value)
    try:
        _write_length(field, writer, view.len)
        memcpy(writer.grow(view.len), view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int _write_array(FieldPlan field, object value, Writer writer) except -1:
    cdef tuple items
    if isinstance(value, list):
        items = tuple(value)  # a snapshot: elements may run Python code, which may change the list
    elif isinstance(value, tuple):
        items = tuple(value)
    else:
        _reject_type(field, "a list or tuple", value)
    _write_length(field, writer, len(items))
    for item in items:
        _write_value(field.element, item, writer)
    return 0


cdef int _write_struct(StructPlan plan, object value, Writer writer) except -1:
    cdef FieldPlan field
    cdef PyObject *item
    cdef dict body
    cdef Py_ssize_t seen = 0
    if isinstance(value, dict):
        body = <dict>value
    elif isinstance(value, _Mapping):
        body = dict(value)
    else:
        raise LocalProtocolError(f"{plan.where}: a mapping is wanted, not {type(value).__name__}")
    for field in plan.fields:
        item = _dict_get(body, field.name)
        if item is NULL:
            _write_value(field, field.fresh_default(), writer)
        else:
            seen += 1
            _write_value(field, <object>item, writer)
    if plan.flexible:
        seen += _write_tags(plan, body, writer)
    if seen != len(body):
        _check_rest(plan, body)
    return 0


cdef Py_ssize_t _write_tags(StructPlan plan, dict body, Writer writer) except -1:
    """Write the tagged fields that differ from their default; return the number of keys found."""
    cdef Py_ssize_t count_at = writer.position
    cdef Py_ssize_t mark, value_at, size
    cdef Py_ssize_t seen = 0
    cdef int width
    cdef int count = 0
    cdef FieldPlan field
    cdef PyObject *item
    writer.grow(1)
    for field in plan.tagged:
        item = _dict_get(body, field.name)
        if item is NULL:
            continue
        seen += 1
        mark = writer.position
        _write_uvarint(writer, field.tag)
        value_at = writer.position
        _write_value(field, <object>item, writer)
        size = writer.position - value_at
        if size == len(field.default_wire) and memcmp(
                writer.start + value_at, <char *>field.default_wire, size) == 0:
            writer.position = mark
            continue
        width = unsigned_size(size)
        writer.grow(width)
        memmove(writer.start + value_at + width, writer.start + value_at, size)
        put_unsigned(writer.start + value_at, size)
        count += 1
    writer.start[count_at] = <unsigned char>count
    return seen


cdef int _check_rest(StructPlan plan, dict body) except -1:
    """Reject keys that no version has, and values that this version would lose."""
    cdef FieldPlan field
    for name, value in body.items():
        if name in plan.absent:
            field = plan.absent[name]
            if not field.ignorable and not _is_default(field, value):
                _reject(field, f"this version has no such field, so {value!r:.80} would be lost")
        elif name not in plan.template:
            raise LocalProtocolError(f"{plan.where}: there is no field {name!r}")
    return 0


cdef bint _is_default(FieldPlan field, object value) except -1:
    if field.kind == ARRAY and field.default is not None:
        return isinstance(value, (list, tuple)) and len(value) == 0
    return value == field.fresh_default()
