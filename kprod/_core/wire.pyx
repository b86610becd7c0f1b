# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Read and write one message of the protocol by its plan, without Python code per field.

A `StructPlan` says, for one version of one structure, which fields stand on the wire, in what order
and how; the codec makes plans from the tables, once per message and version. Reading builds a plain
dict: the template of all defaults is copied and the fields present are put over it.

Reading trusts nothing. Every length is compared with the bytes that remain before it is used, a
count of elements with those bytes divided by the least that one element takes; so memory is bounded
by the input. Unknown tagged fields are skipped. Depth is the schema's. Whatever is wrong is one
`RemoteProtocolError`. Writing refuses what the protocol cannot say with `LocalProtocolError`.

Thread-safety: plans are immutable after construction; each call has its own reader or writer.
Source: KIP-482 and the protocol guide of Apache Kafka 4.3.1; limits from ByteBufferAccessor.java.
"""

import enum
from collections.abc import Mapping as _Mapping
from uuid import UUID as _UUID, SafeUUID as _SafeUUID

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_FromLong, PyLong_FromLongLong
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from kprod.errors import LocalProtocolError, RemoteProtocolError


cdef extern from "Python.h":
    PyObject *_new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t) except NULL
    int PyObject_GenericSetAttr(object, object, object) except -1
    int _PyBytes_Resize(PyObject **, Py_ssize_t) except -1
    PyObject *_dict_get "PyDict_GetItemWithError"(object, object) except? NULL
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL


cdef enum:
    TAGS_MAX = 1024  # Far above the handful that Kafka defines; bounds the work for hostile input.
    STRING_BYTES_MAX = 0x7FFF  # What a two-byte length can say; Java keeps it for compact strings.
    MESSAGE_BYTES_MAX = 0x7FFFFFFF  # The frame's size prefix is an int32.
    FIRST_CAPACITY = 256
    UUID_BYTES = 16


class Kind(enum.IntEnum):
    """What a field's bytes mean."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT16 = 5
    FLOAT64 = 6
    STRING = 7
    BYTES = 8
    RECORDS = 9
    UUID = 10
    STRUCT = 11
    ARRAY = 12


cdef enum:
    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT16 = 5
    FLOAT64 = 6
    STRING = 7
    BYTES = 8
    RECORDS = 9
    UUID = 10
    STRUCT = 11
    ARRAY = 12


class Flag(enum.IntFlag):
    """How a field may be written."""

    NULLABLE = 1
    COMPACT = 2
    IGNORABLE = 4


cdef Py_ssize_t[7] FIXED_BYTES
FIXED_BYTES[:] = [1, 1, 2, 4, 8, 2, 8]
cdef object ZERO_UUID = _UUID(int=0)
cdef object UNKNOWN_SAFETY = _SafeUUID.unknown


cdef class FieldPlan:
    """How one field of one version is read and written.

    Args:
        name: Its key in the dict.
        where: Message, version and enclosing fields, for error texts.
        kind: A `Kind`.
        flags: `Flag` values together.
        default: What stands for an absent value; the shape of an array's or struct's default is
            its own, so only null matters there.
        shape: The element's plan for an array, the structure's for a struct, else None.
    """

    def __init__(self, name, where, int kind, int flags, default, shape):
        self.name = name
        self.path = f"{where} {name}" if where.endswith(":") else f"{where}.{name}"
        self.kind = kind
        self.nullable = flags & 1 != 0
        self.compact = flags & 2 != 0
        self.ignorable = flags & 4 != 0
        self.default = default
        self.tag = -1
        if kind == ARRAY:
            self.element = shape
        elif kind == STRUCT:
            self.struct = shape
        self.size_min = self._least_bytes()

    def _least_bytes(self):
        if self.kind <= FLOAT64:
            return FIXED_BYTES[self.kind]
        if self.kind == UUID:
            return UUID_BYTES
        if self.kind == STRUCT:
            return 1 if self.nullable else self.struct.size_min
        if self.compact:
            return 1
        return 2 if self.kind == STRING else 4

    cdef object fresh_default(self):
        """A default that the caller may change."""
        if self.default is None or self.kind < STRUCT:
            return self.default
        return [] if self.kind == ARRAY else self.struct.fresh_dict()


cdef class StructPlan:
    """How one structure of one version is read and written.

    Args:
        where: Message, version and enclosing fields, for error texts.
        fields: Plans of the fields present, in wire order, without the tagged ones.
        tagged: Pairs of tag and plan.
        absent: Plans of the fields that only other versions have.
        flexible: Whether a section of tagged fields ends the structure.
    """

    def __init__(self, where, fields, tagged, absent, bint flexible):
        cdef FieldPlan field
        self.where = where.rstrip(":")
        self.fields = tuple(fields)
        self.absent = {plan.name: plan for plan in absent}
        self.flexible = flexible
        self.size_min = sum(plan.size_min for plan in fields) + flexible
        self.tags = FieldPlan("(tagged fields)", where, INT8, 0, 0, None)
        self.template = {}
        ordered = sorted(tagged, key=lambda pair: pair[0])
        if len(ordered) >= 0x80:
            raise ValueError(f"{where}: the count of {len(ordered)} tagged fields is written as one byte")
        for tag, field in ordered:
            field.tag = tag
            field.default_wire = _encoded(field)
        self.tagged = tuple(field for _, field in ordered)
        for field in (*self.fields, *self.tagged):
            if field.kind == ARRAY and field.element.size_min < 1:  # reading divides by it
                raise ValueError(f"{field.path}: elements of no bytes have no bound on their count")
        fresh = []
        for field in (*self.fields, *self.tagged, *absent):
            self.template[field.name] = None if field.kind >= STRUCT else field.default
            if field.kind >= STRUCT and field.default is not None and field not in self.fields:
                fresh.append(field)
        self.fresh = tuple(fresh)

    cdef dict fresh_dict(self):
        """A dict of all defaults that the caller may change."""
        cdef FieldPlan field
        cdef dict result = PyDict_Copy(self.template)
        for field in self.fields:
            result[field.name] = field.fresh_default()
        for field in self.fresh:
            result[field.name] = field.fresh_default()
        return result

    def decode(self, buffer):
        """Read a whole buffer.

        Args:
            buffer: Any bytes-like object; `records` fields of the result refer to it.

        Returns:
            Every field of the structure, absent ones with their default.

        Raises:
            RemoteProtocolError: The bytes are not this structure, end early, or go on after it.
        """
        body, end = self.decode_prefix(buffer)
        size = memoryview(buffer).nbytes
        if end != size:
            raise RemoteProtocolError(f"{self.where} ends at byte {end}, but {size - end} bytes follow")
        return body

    def decode_prefix(self, buffer):
        """Read the structure that a buffer begins with.

        Args:
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
            return _read_struct(self, reader), reader.position
        finally:
            PyBuffer_Release(&view)

    def encode(self, body):
        """Write the structure.

        Args:
            body: Values by field name; a missing one takes its default.

        Returns:
            The bytes.

        Raises:
            LocalProtocolError: A value, or a key, that this version cannot express.
        """
        cdef Writer writer = Writer.__new__(Writer)
        _write_struct(self, body, writer)
        return writer.finish()


def encode_uvarint(uint64_t value):
    """Write an unsigned varint of at most ten bytes."""
    cdef unsigned char[10] room
    cdef int size = store_uvarint(room, value)
    return PyBytes_FromStringAndSize(<char *>room, size)


# --- reading -----------------------------------------------------------------


cdef class Reader:
    """A position in bytes that do not move while it lives."""


cdef int _fail(Reader reader, FieldPlan field, str text) except -1:
    raise RemoteProtocolError(f"{field.path}, at byte {reader.position}: {text}")


cdef inline const unsigned char *_take(Reader reader, FieldPlan field, Py_ssize_t size) except NULL:
    """Step over `size` ≥ 0 bytes and return where they begin."""
    cdef const unsigned char *at = reader.start + reader.position
    if size > reader.end - reader.position:
        _fail(reader, field, f"{size} bytes are needed and {reader.end - reader.position} remain")
    reader.position += size
    return at


cdef int64_t _read_uvarint(Reader reader, FieldPlan field) except -1:
    """Read an unsigned varint of at most 32 bits."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef unsigned char byte
    while True:
        byte = _take(reader, field, 1)[0]
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            _fail(reader, field, "a varint goes on past five bytes")
    if value > 0xFFFFFFFFULL:
        _fail(reader, field, f"varint {value} exceeds 32 bits")
    return <int64_t>value


cdef Py_ssize_t _read_length(Reader reader, FieldPlan field) except -2:
    """Read the length of a string, bytes or array; −1 is null."""
    cdef int64_t length
    if field.compact:
        length = _read_uvarint(reader, field) - 1
    elif field.kind == STRING:
        length = <int16_t>load_uint16(_take(reader, field, 2))
    else:
        length = <int32_t>load_uint32(_take(reader, field, 4))
    if length < 0 and not (length == -1 and field.nullable):
        _fail(reader, field, "null is not allowed" if length == -1 else f"negative length {length}")
    return <Py_ssize_t>length


cdef object _read_value(FieldPlan field, Reader reader):
    cdef int kind = field.kind
    if kind == INT32:
        return PyLong_FromLong(<int32_t>load_uint32(_take(reader, field, 4)))
    if kind == INT16:
        return PyLong_FromLong(<int16_t>load_uint16(_take(reader, field, 2)))
    if kind == STRING:
        return _read_string(field, reader)
    if kind == ARRAY:
        return _read_array(field, reader)
    if kind == STRUCT:
        if field.nullable and <int8_t>_take(reader, field, 1)[0] < 0:
            return None
        return _read_struct(field.struct, reader)
    if kind == INT64:
        return PyLong_FromLongLong(<int64_t>load_uint64(_take(reader, field, 8)))
    if kind == INT8:
        return PyLong_FromLong(<int8_t>_take(reader, field, 1)[0])
    if kind == BOOL:
        return _take(reader, field, 1)[0] != 0
    if kind == UUID:
        return _read_uuid(field, reader)
    if kind == UINT16:
        return PyLong_FromLong(load_uint16(_take(reader, field, 2)))
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
    if load_uint64(at) == 0 and load_uint64(at + 8) == 0:
        return ZERO_UUID
    # Its constructor, all Python, would cost more than the rest of a topic. A UUID refuses assignment,
    # so its two slots are filled as its own __setstate__ does.
    value = _UUID.__new__(_UUID)
    PyObject_GenericSetAttr(value, "int", int.from_bytes((<char *>at)[:UUID_BYTES], "big"))
    PyObject_GenericSetAttr(value, "is_safe", UNKNOWN_SAFETY)
    return value


cdef object _read_float(FieldPlan field, Reader reader):
    cdef uint64_t bits = load_uint64(_take(reader, field, 8))
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef object _read_array(FieldPlan field, Reader reader):
    cdef Py_ssize_t count = _read_length(reader, field)
    cdef Py_ssize_t i
    cdef FieldPlan element = field.element
    cdef StructPlan plan
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
            _fail(reader, field, f"tagged field of {size} bytes has {reader.end - reader.position} left over")
        reader.end = end
    return 0


# --- writing -----------------------------------------------------------------


cdef class Writer:
    """Bytes that grow at their end."""

    def __cinit__(self):
        self.buffer = _new_bytes(NULL, FIRST_CAPACITY)
        self.start = <unsigned char *><char *><object>self.buffer
        self.position = 0
        self.capacity = FIRST_CAPACITY

    def __dealloc__(self):
        Py_XDECREF(self.buffer)

    cdef unsigned char *grow(self, Py_ssize_t size) except NULL:
        """Add `size` ≥ 0 undefined bytes and return where they begin; valid until the next call."""
        cdef Py_ssize_t capacity
        cdef unsigned char *at
        if size > self.capacity - self.position:
            if size > MESSAGE_BYTES_MAX - self.position:
                raise LocalProtocolError(f"a message of {self.position + size} bytes or more was to be "
                                         f"written, a frame holds {MESSAGE_BYTES_MAX}")
            capacity = max(2 * self.capacity, self.position + size)
            _PyBytes_Resize(&self.buffer, capacity)
            self.start = <unsigned char *><char *><object>self.buffer
            self.capacity = capacity
        at = self.start + self.position
        self.position += size
        return at

    cdef bytes finish(self):
        """Give up the bytes; the writer is done."""
        cdef bytes result
        _PyBytes_Resize(&self.buffer, self.position)
        result = <bytes>self.buffer
        Py_XDECREF(self.buffer)
        self.buffer = NULL
        return result


cdef bytes _encoded(FieldPlan field):
    cdef Writer writer = Writer.__new__(Writer)
    _write_value(field, field.fresh_default(), writer)
    return writer.finish()


cdef int _refuse(FieldPlan field, str text) except -1:
    raise LocalProtocolError(f"{field.path}: {text}")


cdef int _refuse_type(FieldPlan field, str wanted, object value) except -1:
    if value is None:
        _refuse(field, f"{wanted} is wanted, null is not allowed in this version")
    _refuse(field, f"{wanted} is wanted, not {type(value).__name__}")


cdef inline int _write_uvarint(Writer writer, uint64_t value) except -1:
    store_uvarint(writer.grow(uvarint_size(value)), value)
    return 0


cdef int _write_length(FieldPlan field, Writer writer, Py_ssize_t length) except -1:
    """Write the length of a string, bytes or array; −1 is null."""
    if length > MESSAGE_BYTES_MAX - 1:
        _refuse(field, f"length {length} exceeds {MESSAGE_BYTES_MAX - 1}")
    if field.compact:
        return _write_uvarint(writer, <uint64_t>(length + 1))
    if field.kind == STRING:
        store_big_endian(writer.grow(2), <uint64_t>length, 2)
    else:
        store_big_endian(writer.grow(4), <uint64_t>length, 4)
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
            _refuse_type(field, "a UUID", value)
        memcpy(writer.grow(UUID_BYTES), <char *>(<bytes>value.bytes), UUID_BYTES)
        return 0
    if kind == BOOL:
        if value is not True and value is not False:
            _refuse_type(field, "a bool", value)
        writer.grow(1)[0] = value is True
        return 0
    if kind == FLOAT64:
        return _write_float(field, value, writer)
    return _write_int(field, value, writer)


cdef int _write_int(FieldPlan field, object value, Writer writer) except -1:
    cdef int overflow = 0
    cdef int size = <int>FIXED_BYTES[field.kind]
    cdef int64_t number
    cdef int64_t low = 0
    cdef int64_t high = 0xFFFF
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse_type(field, "an int", value)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if field.kind != UINT16:
        high = <int64_t>((<uint64_t>1 << (8 * size - 1)) - 1)
        low = -high - 1
    if overflow or number < low or number > high:
        _refuse(field, f"{value} is outside {low} to {high}")
    store_big_endian(writer.grow(size), <uint64_t>number, size)
    return 0


cdef int _write_float(FieldPlan field, object value, Writer writer) except -1:
    cdef double number
    cdef uint64_t bits
    if not isinstance(value, float):
        _refuse_type(field, "a float", value)
    number = value
    memcpy(&bits, &number, sizeof(bits))
    store_big_endian(writer.grow(8), bits, 8)
    return 0


cdef int _write_string(FieldPlan field, object value, Writer writer) except -1:
    cdef Py_ssize_t length = 0
    cdef const char *text = NULL
    if not isinstance(value, str):
        _refuse_type(field, "a str", value)
    try:
        text = PyUnicode_AsUTF8AndSize(value, &length)
    except UnicodeEncodeError as error:
        _refuse(field, f"not encodable as UTF-8: {error.reason}")
    if length > STRING_BYTES_MAX:
        _refuse(field, f"string of {length} bytes, {STRING_BYTES_MAX} are allowed")
    _write_length(field, writer, length)
    memcpy(writer.grow(length), text, length)
    return 0


cdef int _write_bytes(FieldPlan field, object value, Writer writer) except -1:
    cdef Py_buffer view
    if isinstance(value, str):
        _refuse_type(field, "a bytes-like object", value)
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        _refuse_type(field, "a contiguous bytes-like object", value)
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
        _refuse_type(field, "a list or tuple", value)
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
    """Write the tagged fields that differ from their default; return how many keys were seen."""
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
        width = uvarint_size(size)
        writer.grow(width)
        memmove(writer.start + value_at + width, writer.start + value_at, size)
        store_uvarint(writer.start + value_at, size)
        count += 1
    writer.start[count_at] = <unsigned char>count
    return seen


cdef int _check_rest(StructPlan plan, dict body) except -1:
    """Refuse keys that no version has, and values that this version would lose."""
    cdef FieldPlan field
    for name, value in body.items():
        if name in plan.absent:
            field = plan.absent[name]
            if not (field.ignorable or value == field.fresh_default() or (field.kind == ARRAY and not value)):
                _refuse(field, f"this version has no such field, so {value!r:.80} would be lost")
        elif name not in plan.template:
            raise LocalProtocolError(f"{plan.where}: there is no field {name!r}")
    return 0
