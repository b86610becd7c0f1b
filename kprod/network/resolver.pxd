# The types of resolver.py, which is compiled as it stands.


cdef class ThreadResolver:
    cdef public object _wakeup
    cdef public object _lock
    cdef public object _jobs
    cdef public object _results
    cdef public Py_ssize_t _thread_count
    cdef public bint _closed
