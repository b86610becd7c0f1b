# The types of epoll_selector.py, which is compiled as it stands.


cdef class EpollSelector:
    cdef public object _epoll
    cdef public dict _owners
    cdef public object _wake
