cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    void PyErr_SetInterrupt() noexcept


cpdef bint may_run_handlers(object main_ident) except -1
cpdef bint settle_collector() except -1
cpdef void interrupt_later() noexcept
cpdef object run_handlers()
