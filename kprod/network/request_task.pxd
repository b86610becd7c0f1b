# The types of request_task.py, which is compiled as it stands.

from kprod._core.timer.timer_task cimport TimerTask
from kprod.network.in_flight cimport InFlightRequest


cdef class RequestTask(TimerTask):
    cdef public InFlightRequest _request
    cdef public object _on_due

    cpdef object run(self)
