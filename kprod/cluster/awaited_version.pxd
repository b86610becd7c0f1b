# The types of awaited_version.py, which is compiled as it stands.

from kprod._core.threads cimport wait_for


cdef class AwaitedVersion:
    cdef public object _waiters
    cdef public object _version
    cdef public object _fatal_error
    cdef public bint _closed
