# The types of loop_thread.py, which is compiled as it stands.

from kprod._core.clock cimport SystemClock


cdef class LoopThread:
    cdef public str _owner
    cdef public object _run_once
    cdef public SystemClock _clock
    cdef public object _settles
    cdef public object _on_death
    cdef public tuple _last_steps
    cdef public bint _is_stopping
    cdef public bint _is_forked
    cdef public object _ended
    cdef public bint _is_started
    cdef public object _thread
    cdef public object _ident
    cdef public set _worker_idents
