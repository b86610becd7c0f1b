# The types of linger.py, which is compiled as it stands.

cimport cython
from libc.stdint cimport int64_t

from kprod._core.timer.wheel cimport TimingWheel
from kprod.producer.batch cimport ProducerBatch
from kprod.producer.partition_queue cimport PartitionQueue


cdef class Linger:
    cdef public TimingWheel _timer
    cdef public int64_t _linger_ms
    cdef public int64_t _delivery_timeout_ms
    cdef public object _on_ready
    cdef public object _on_expired
    cdef public object _on_due

    @cython.locals(
        batch=ProducerBatch, fresh=list, index=Py_ssize_t, created_ms=int64_t, lingered_ms=int64_t
    )
    cpdef arm_new_batches(self, PartitionQueue queue, int64_t now_ms)
    cpdef _arm(self, ProducerBatch batch, int64_t instant_ms)
