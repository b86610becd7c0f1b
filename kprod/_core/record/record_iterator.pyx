# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The records of one batch of format V2, created one at a time from the bytes in place.

The bytes are untrusted and may change while they are read: each length is compared with the
remaining bytes before it is used (`record_fields`). Malformed records raise `CorruptRecord`.

Invariants.
    Any object with a pointer into a buffer holds the `BufferHold` that keeps the buffer exported.
    The bytes between `_at` and `_limit` of an iterator are all its own batch's records.

Memory. Only keys, values and headers of the returned record are copied. Records hold only bytes,
str and int, so they cannot be part of a reference cycle, and the garbage collector does not track
them.

Thread-safety: an iterator may be used by one thread at a time. If the bytes under it change
meanwhile, memory stays safe.
Source: Kafka DefaultRecord and ByteUtils (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from kprod._core.layout cimport TIMESTAMP_TYPE_MASK
from kprod._core.record.record_fields cimport (
    FAULT_NONE,
    FAULT_OFFSET_DELTA,
    Fault,
    HeaderFields,
    RecordFields,
    read_header,
    read_record,
)

from kprod.errors import CorruptRecord

cdef extern from "Python.h":
    # Exempts an object from garbage collection; no effect on an object that is not tracked.
    void PyObject_GC_UnTrack(void* op) noexcept
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* length) except NULL
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t item_count)

cdef enum:
    RECORD_FIELDS = 5

cdef tuple FAULT_TEXTS = (
    "no fault",
    "a varint is cut off or too long",
    "its length is less than a record's or more than the bytes left",
    "its offset is outside the batch",
    "its key's length is malformed or more than the bytes left",
    "its value's length is malformed or more than the bytes left",
    "its header count is negative or more than the bytes left",
    "a header key is null or longer than the bytes left",
    "a header value's length is malformed or more than the bytes left",
    "its fields do not end where its length says",
)

# Types of records and headers: plain tuples until the layer above registers its own.
cdef object _record_type = tuple
cdef object _header_type = tuple


def register_types(record_type, header_type):
    """Register the tuple types used for records and headers.

    Args:
        record_type: A tuple subclass of five fields: offset, timestamp_ms, key, value, headers.
        header_type: A tuple subclass of two fields: key, value.

    Raises:
        TypeError: One is not a tuple subclass, or its instances are larger than a tuple's.
    """
    global _record_type, _header_type
    for candidate in (record_type, header_type):
        if not (isinstance(candidate, type) and issubclass(candidate, tuple)):
            raise TypeError(f"records and headers are made as tuples, got {candidate!r}")
        if candidate.__basicsize__ != tuple.__basicsize__ or candidate.__dictoffset__ != 0:
            raise TypeError(f"{candidate!r} has fields beside its items")
    _record_type = record_type
    _header_type = header_type


cdef inline int64_t _add64(int64_t left, int64_t right) noexcept nogil:
    """Add as Java does, where an overflow wraps."""
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef inline object _nullable_bytes(const uint8_t* start, int32_t length):
    if length < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>start, length)


cdef inline void _put(object target, Py_ssize_t index, object item) noexcept:
    """Fill a slot of a new tuple, which gets its own reference to the item."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(target, index, item)


cdef object _decode_key(const HeaderFields* header):
    try:
        return PyUnicode_DecodeUTF8(<const char*>header.key, header.key_length, NULL)
    except UnicodeDecodeError as error:
        raise CorruptRecord(f"a header key is not UTF-8: {error}") from error


cdef inline object _header_key(const HeaderFields* header, PyObject* recent):
    """Return the key as str: `recent` itself if it is equal, since headers repeat their keys."""
    cdef Py_ssize_t length
    cdef const char* recent_start
    if recent != NULL:
        recent_start = PyUnicode_AsUTF8AndSize(<object>recent, &length)
        if length == header.key_length and memcmp(recent_start, header.key, length) == 0:
            return <object>recent
    return _decode_key(header)


cdef inline object _make_header(object header_type, object key, object value):
    if header_type is tuple:
        made = (key, value)
    else:
        made = PyType_GenericAlloc(<PyTypeObject*>header_type, 2)
        _put(made, 0, key)
        _put(made, 1, value)
    PyObject_GC_UnTrack(<PyObject*>made)
    return made


cdef tuple _make_headers(const RecordFields* fields, object header_type, tuple recent):
    """Create the headers of a record that `read_record` found valid.

    `recent` are the headers of the record before, or an empty tuple.
    """
    cdef HeaderFields header
    cdef const uint8_t* at = fields.headers
    cdef Fault fault
    cdef int32_t index
    cdef Py_ssize_t recent_count = PyTuple_GET_SIZE(recent)
    cdef PyObject* recent_key
    cdef tuple headers = PyTuple_New(fields.header_count)
    for index in range(fields.header_count):
        # Each read repeats all checks, since the bytes may have changed since the first read.
        fault = read_header(&at, fields.end, &header)
        if fault != FAULT_NONE:
            raise CorruptRecord(FAULT_TEXTS[fault])
        recent_key = NULL
        if index < recent_count:
            recent_key = PyTuple_GET_ITEM(<object>PyTuple_GET_ITEM(recent, index), 0)
        key = _header_key(&header, recent_key)
        value = _nullable_bytes(header.value, header.value_length)
        _put(headers, index, _make_header(header_type, key, value))
    PyObject_GC_UnTrack(<PyObject*>headers)
    return headers


cdef tuple headers_in_section(
    const uint8_t* start, const uint8_t* end, int32_t count, tuple recent
):
    """Create headers that `read_record` found valid, from a copy of their bytes."""
    cdef RecordFields fields
    fields.headers = start
    fields.end = end
    fields.header_count = count
    return _make_headers(&fields, _header_type, recent)


cdef int _check_header_keys(const RecordFields* fields) except -1:
    """Raise if a header key is not UTF-8, creating objects only for keys that are not ASCII."""
    cdef HeaderFields header
    cdef const uint8_t* at = fields.headers
    cdef uint8_t seen
    cdef int32_t _index, place
    for _index in range(fields.header_count):
        if read_header(&at, fields.end, &header) != FAULT_NONE:
            raise CorruptRecord("a record changed while it was read")
        seen = 0
        for place in range(header.key_length):
            seen |= header.key[place]
        if seen >= 0x80:
            _decode_key(&header)
    return 0


@cython.final
cdef class BufferHold:
    """A buffer that is exported, and so neither moves nor is freed, while this object lives."""

    def __cinit__(self, buffer):
        PyObject_GetBuffer(buffer, &self._buffer, PyBUF_SIMPLE)
        self.start = <const uint8_t*>self._buffer.buf
        self.size = self._buffer.len

    def __dealloc__(self):
        PyBuffer_Release(&self._buffer)


@cython.final
cdef class RecordIterator:
    """The records of one batch, one after another.

    Thread-safety: one thread at a time.
    """

    def __init__(self):
        raise TypeError("a RecordIterator comes from a RecordBatch")

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordFields fields
        if self._index == self._batch.record_count:
            self._check_end()
            raise StopIteration
        self._read(&fields)
        if self._as_tuples:
            return self._make_tuple(&fields)
        return self._make_record(&fields)

    cdef inline int _read(self, RecordFields* fields) except -1:
        """Read the next record's fields; on a fault the position does not change."""
        cdef const uint8_t* at = self._at
        cdef Fault fault = read_record(&at, self._limit, fields)
        if fault == FAULT_NONE and not 0 <= fields.offset_delta <= self._batch.last_offset_delta:
            fault = FAULT_OFFSET_DELTA
        if fault != FAULT_NONE:
            self._raise(fault)
        self._at = at
        self._index += 1
        return 0

    cdef int _raise(self, Fault fault) except -1:
        raise CorruptRecord(
            f"batch at byte {self._batch.position}, base offset {self._batch.base_offset}: "
            f"record {self._index} of {self._batch.record_count}: {FAULT_TEXTS[fault]}, "
            f"{self._limit - self._at} bytes before the end")

    cdef int _check_end(self) except -1:
        if self._at != self._limit:
            raise CorruptRecord(
                f"batch at byte {self._batch.position}, base offset {self._batch.base_offset}: "
                f"record count {self._batch.record_count}, bytes left over after the last record: "
                f"{self._limit - self._at}")
        return 0

    cdef inline int64_t _timestamp_ms(self, const RecordFields* fields) noexcept:
        if self._batch.attributes & TIMESTAMP_TYPE_MASK:
            return self._batch.max_timestamp_ms
        return _add64(self._batch.base_timestamp_ms, fields.timestamp_delta)

    cdef inline object _make_tuple(self, const RecordFields* fields):
        if fields.header_count:
            self._headers = _make_headers(fields, tuple, self._headers)
        made = (
            _nullable_bytes(fields.key, fields.key_length),
            _nullable_bytes(fields.value, fields.value_length),
            self._headers if fields.header_count else (),
        )
        PyObject_GC_UnTrack(<PyObject*>made)
        return made

    cdef inline object _make_record(self, const RecordFields* fields):
        if fields.header_count:
            self._headers = _make_headers(fields, _header_type, self._headers)
        made = PyType_GenericAlloc(<PyTypeObject*>_record_type, RECORD_FIELDS)
        _put(made, 0, self._batch.base_offset + fields.offset_delta)
        _put(made, 1, self._timestamp_ms(fields))
        _put(made, 2, _nullable_bytes(fields.key, fields.key_length))
        _put(made, 3, _nullable_bytes(fields.value, fields.value_length))
        _put(made, 4, self._headers if fields.header_count else ())
        PyObject_GC_UnTrack(<PyObject*>made)
        return made

    cdef object check(self, bint contiguous):
        """Check all remaining records; see `RecordBatch.check_records`."""
        cdef RecordFields fields
        cdef int64_t timestamp_ms
        cdef int64_t latest_ms = -1
        cdef int32_t count = self._batch.record_count
        if contiguous and self._batch.last_offset_delta != count - 1:
            raise CorruptRecord(
                f"record count {count}, last offset delta {self._batch.last_offset_delta}")
        while self._index < count:
            self._read(&fields)
            if contiguous and fields.offset_delta != self._index - 1:
                raise CorruptRecord(
                    f"record {self._index - 1} has offset delta {fields.offset_delta}")
            timestamp_ms = self._timestamp_ms(&fields)
            if timestamp_ms > latest_ms:
                latest_ms = timestamp_ms
            if fields.header_count:
                _check_header_keys(&fields)
        self._check_end()
        return latest_ms
