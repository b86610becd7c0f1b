# The types of epoll_selector.py, which is compiled as it stands.

from kprod._core.socket_io.epoll_calls cimport change_events

cdef int _NONE
cdef int _READ
cdef int _EPOLLIN
cdef int _EPOLLRDHUP


cdef class EpollSelector:
    cdef public object _epoll
    cdef public int _descriptor
    cdef public dict _owners
    cdef public object _wake

    cpdef change(self, int descriptor, int events)


cdef int _to_epoll(int events) except -1
