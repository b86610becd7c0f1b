# The types of record_reading.py, which is compiled as it stands.

from kprod._core.signal_handlers cimport run_handlers


cdef class Reading:
    cdef public object _parts
    cdef public object _restart
    cdef public bint _is_woken
    cdef public bint _is_forked
