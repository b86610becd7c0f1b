# The types of socket_wait.py, which is compiled as it stands.

cimport cython

from kprod._core.signal_handlers cimport run_handlers
from kprod._core.socket_io.epoll_calls cimport wait_for_one


cdef class SocketWait:
    cdef public bint by_edges

    cpdef watch(self, object transport)
    cpdef wait(self, double timeout_s)
    cpdef wake(self)
    cpdef close_after_fork(self)


cdef class EpollSocketWait(SocketWait):
    cdef public object _epoll
    cdef public int _descriptor
    cdef public object _transport
    cdef public object _wakeup_fd

    cpdef watch(self, object transport)

    @cython.locals(left_ms=cython.int)
    cpdef wait(self, double timeout_s)
    cpdef wake(self)
    cpdef close_after_fork(self)
