# A record's metadata, created without the constructor, which is Python code; inline only, so there
# is no .pyx.

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_alloc)(type, Py_ssize_t)


# Create a named tuple of six fields, of the given type.
cdef inline object new_metadata(
    object metadata_type, str topic, object partition, object offset, object timestamp_ms,
    object key_bytes, object value_bytes
):
    cdef object made = (<PyTypeObject*>metadata_type).tp_alloc(metadata_type, 6)
    _fill(made, 0, topic)
    _fill(made, 1, partition)
    _fill(made, 2, offset)
    _fill(made, 3, timestamp_ms)
    _fill(made, 4, key_bytes)
    _fill(made, 5, value_bytes)
    return made


cdef inline void _fill(object made, Py_ssize_t place, object field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(made, place, field)
