from libc.stdint cimport uint32_t


cpdef change_events(int epoll_descriptor, int descriptor, uint32_t events)
cpdef int wait_for_one(int epoll_descriptor, int timeout_ms) except -2
