# cython: language_level=3
"""A byte buffer that grows at its end."""

from cpython.object cimport PyObject


cdef class Writer:
    cdef PyObject *buffer
    cdef unsigned char *start
    cdef Py_ssize_t position
    cdef Py_ssize_t capacity

    cdef unsigned char *grow(self, Py_ssize_t size) except NULL
    cdef bytes finish(self)
