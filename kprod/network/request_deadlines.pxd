# The types of request_deadlines.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.timer.wheel cimport TimingWheel
from kprod.network.in_flight cimport InFlightRequest, InFlightRequests


cdef class RequestDeadlines:
    cdef public TimingWheel _timer
    cdef public object _connection
    cdef public object _on_due

    cpdef arm(self, InFlightRequest in_flight)

    @cython.locals(in_flight=InFlightRequest)
    cpdef delay(self, InFlightRequests requests, int64_t added_ms)
    cpdef _look(self, InFlightRequest in_flight)
