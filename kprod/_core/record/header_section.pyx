# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The header section of a record of format V2: the application's headers, checked and encoded.

The section is a varint count, then for each header the length and UTF-8 of its key, and the length
and bytes of its value (length -1 for null). All code here runs before the partition's critical
section, since an iterator of headers is application code.

Thread-safety: each call reads a copy of the caller's list, so another thread may change the list.
Source: Kafka DefaultRecord (clients 4.3.1).
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GetSlice, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from kprod._core.varint cimport put_varint, varint_size


cdef bytes encode_header_section(object headers, Py_ssize_t bytes_max):
    """Return the header section of a record, count included, with the caller's bytes copied.

    Returns None if it would exceed `bytes_max`; an iterator is read only until that is known.
    """
    cdef list pairs
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef Py_ssize_t index
    cdef Py_ssize_t name_bytes
    cdef const char* name
    cdef bytes section
    cdef unsigned char* at
    # Both branches copy: another thread may change the caller's list.
    if PyList_CheckExact(headers):
        pairs = PyList_GetSlice(headers, 0, PyList_GET_SIZE(headers))
    else:
        pairs = _pairs_of(headers, bytes_max)
    count = PyList_GET_SIZE(pairs)
    size = varint_size(<int32_t>count)
    # Sizes first, so that the section is allocated once. Each str caches its own UTF-8.
    for index in range(count):
        if not _is_plain(<object>PyList_GET_ITEM(pairs, index)):
            pairs[index] = _checked_header(pairs[index])
        pair = <tuple>PyList_GET_ITEM(pairs, index)
        name_bytes = _utf8_size(<object>PyTuple_GET_ITEM(pair, 0))
        size += varint_size(<int32_t>name_bytes) + name_bytes
        size += _value_size(<object>PyTuple_GET_ITEM(pair, 1))
        if size > bytes_max:
            return None
    section = PyBytes_FromStringAndSize(NULL, size)
    at = put_varint(<unsigned char*>PyBytes_AS_STRING(section), <int32_t>count)
    for index in range(count):
        pair = <tuple>PyList_GET_ITEM(pairs, index)
        name = PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_bytes)
        at = put_varint(at, <int32_t>name_bytes)
        memcpy(at, name, name_bytes)
        at = _put_value(at + name_bytes, <object>PyTuple_GET_ITEM(pair, 1))
    return section


cdef list _pairs_of(object headers, Py_ssize_t bytes_max):
    """List the headers of a mapping, tuple or iterable, up to the first beyond the limit."""
    cdef list pairs = []
    cdef Py_ssize_t size = 0
    try:
        given = iter(headers.items() if hasattr(headers, "items") else headers)
    except TypeError:
        raise TypeError(
            f"headers must be pairs of str and bytes-like, or a mapping of them,"
            f" got {type(headers).__name__}"
        ) from None
    # One by one, without `__len__`: an iterator may never end, and a length may be wrong.
    for pair in given:
        pair = pair if _is_plain(pair) else _checked_header(pair)
        pairs.append(pair)
        # Two lengths, each of at least one byte.
        size += 2 + len((<tuple>pair)[0]) + len((<tuple>pair)[1] or b"")
        if size > bytes_max:
            break
    return pairs


cdef inline bint _is_plain(object pair) noexcept:
    """Return whether a header is a tuple of a str and bytes or None, and so cannot change."""
    if not PyTuple_CheckExact(pair) or PyTuple_GET_SIZE(pair) != 2:
        return False
    value = <object>PyTuple_GET_ITEM(pair, 1)
    if not PyUnicode_CheckExact(<object>PyTuple_GET_ITEM(pair, 0)):
        return False
    return value is None or PyBytes_CheckExact(value)


cdef Py_ssize_t _utf8_size(object name) except -1:
    """Return the size of a key in UTF-8, which the str caches."""
    cdef Py_ssize_t size = 0
    try:
        PyUnicode_AsUTF8AndSize(name, &size)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"header key {name!r:.80} cannot be encoded as UTF-8: {error.reason}"
        ) from None
    return size


cdef inline Py_ssize_t _value_size(object value) noexcept:
    """Return the encoded size of a header's value, its length included."""
    if value is None:
        return varint_size(-1)
    return varint_size(<int32_t>PyBytes_GET_SIZE(value)) + PyBytes_GET_SIZE(value)


cdef inline unsigned char* _put_value(unsigned char* at, object value) noexcept:
    if value is None:
        return put_varint(at, -1)
    at = put_varint(at, <int32_t>PyBytes_GET_SIZE(value))
    memcpy(at, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return at + PyBytes_GET_SIZE(value)


cdef tuple _checked_header(object pair):
    """Convert a header to a pair of str and bytes or None; raise an error that names the fault."""
    if not isinstance(pair, (tuple, list)):
        raise TypeError(
            f"a header must be a pair (str, bytes-like or None), got {type(pair).__name__}"
        )
    if len(pair) != 2:
        raise TypeError(
            f"a header must be a pair (str, bytes-like or None), got a {type(pair).__name__} of"
            f" {len(pair)}"
        )
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"a header's key must be str, got {type(name).__name__}")
    if value is not None and not isinstance(value, bytes):
        if isinstance(value, str):
            raise TypeError(
                f"the value of header {name!r:.80} must be bytes-like or None, got str:"
                " encode it first"
            )
        try:
            value = bytes(memoryview(value))
        except TypeError:
            raise TypeError(
                f"the value of header {name!r:.80} must be bytes-like or None, got"
                f" {type(value).__name__}"
            ) from None
    return name, value
