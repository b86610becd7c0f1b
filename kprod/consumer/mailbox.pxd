# The types of mailbox.py, which is compiled as it stands.

from kprod._core.threads cimport wait_for
from kprod.cluster.metadata_waiters cimport MetadataWaiters


cdef class Mailbox:
    cdef public object _commands
    cdef public object _steps
    cdef public MetadataWaiters _waiters
    cdef public object wake

    cpdef bint run_steps(self) except -1
    cpdef notify(self)
    cpdef add_waiter(self, object waiter)
    cpdef remove_waiter(self, object waiter)
