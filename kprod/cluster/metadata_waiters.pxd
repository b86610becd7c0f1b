# The types of metadata_waiters.py, which is compiled as it stands.


cdef class MetadataWaiters:
    cdef public dict _waiters

    cpdef add(self, object waiter)
    cpdef remove(self, object waiter)
    cpdef wake_all(self)
