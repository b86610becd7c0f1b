# The types of batch_task.py, which is compiled as it stands.

from kprod._core.timer_task cimport TimerTask


cdef class BatchTask(TimerTask):
    cdef public object _batch
    cdef public object _on_due

    cpdef object run(self)
