# The types of mailbox.py, which is compiled as it stands.


cdef class Mailbox:
    cdef public object _commands
    cdef public object _steps
    cdef public object _waiters
    cdef public object wake
