cdef int refuse_own_wait(object result) except -1
