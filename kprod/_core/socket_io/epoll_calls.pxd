from libc.stdint cimport uint32_t


cpdef change_events(int epoll_descriptor, int descriptor, uint32_t events)
cpdef wait_for_one(int epoll_descriptor, double timeout_s)
