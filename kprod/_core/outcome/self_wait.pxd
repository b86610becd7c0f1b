cdef int reject_self_wait(object result) except -1
