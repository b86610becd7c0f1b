# Arguments of the send path, checked and turned into C values; inline only, so there is no .pyx.
#
# A wrong argument raises TypeError or ValueError, whose text names the argument and the remedy.

from cpython.buffer cimport PyBUF_SIMPLE, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.number cimport PyNumber_Index
from cpython.unicode cimport PyUnicode_FromObject
from libc.stdint cimport int64_t


# Find the bytes of a key or value; size -1 for None. True if the caller must release `view`.
cdef inline bint expose(
    object given, Py_buffer* view, const unsigned char** at, Py_ssize_t* size, str role
) except -1:
    if given is None:
        at[0] = NULL
        size[0] = -1
        return False
    if PyBytes_CheckExact(given):
        at[0] = <const unsigned char*>PyBytes_AS_STRING(given)
        size[0] = PyBytes_GET_SIZE(given)
        return False
    if not PyObject_CheckBuffer(given):
        remedy = f"encode it ({role}.encode())" if isinstance(given, str) else "serialize it"
        raise TypeError(
            f"{role} must be bytes-like or None, got {type(given).__name__}: {remedy}, or set"
            f" {role}_serializer"
        )
    PyObject_GetBuffer(given, view, PyBUF_SIMPLE)
    at[0] = <const unsigned char*>view.buf
    size[0] = view.len
    return True


# Convert a number, which must be non-negative and fit 64 bits.
cdef inline int64_t whole(object given, str role) except -1:
    cdef object number
    try:
        number = PyNumber_Index(given)
    except TypeError:
        raise TypeError(f"{role} must be int or None, got {type(given).__name__}") from None
    if number < 0:
        raise ValueError(f"{role} must be >= 0, got {number}")
    if number > 9223372036854775807:
        raise ValueError(f"{role} must fit 64 bits, got {number}")
    return number


# Return the topic as an exact str: hashing or comparing a subclass could run its own code.
cdef inline object plain_text(object topic):
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, got {type(topic).__name__}")
    return PyUnicode_FromObject(topic)
