# The types of sender_thread.py, which is compiled as it stands.

from kprod._core.clock cimport SystemClock
from kprod.producer.sender cimport Sender


cdef class SenderThread:
    cdef public Sender _sender
    cdef public SystemClock _clock
    cdef public object _owns
    cdef public object _on_death
    cdef public tuple _last_steps
    cdef public bint _is_stopping
    cdef public bint _is_forked
    cdef public object _ended
    cdef public bint _is_started
    cdef public object _thread
    cdef public object _ident
