# The types of batch.py, which is compiled as it stands.

from libc.stdint cimport int64_t

from kprod._core.record.batch_builder cimport BatchBuilder
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.timer.timer_task cimport TimerTask


cdef class ProducerBatch(TimerTask):
    cdef public object queue
    cdef public BatchBuilder builder
    cdef public BatchResult result
    cdef public bint is_armed
    cdef public bint is_due
    cdef public bint is_released
    cdef public bint in_flight
    cdef public bint maybe_persisted
    cdef public int64_t attempts
    cdef public int64_t base_sequence
    cdef public int64_t producer_id
    cdef public int64_t producer_epoch
    cdef public list pieces
    cdef public object verdict
    cdef public object on_due

    cpdef object run(self)
    cpdef assign(self, int64_t producer_id, int64_t producer_epoch, int64_t base_sequence)
    cpdef list close(self, int attributes)
    cpdef succeed(self, int64_t base_offset, int64_t log_append_time_ms)
    cpdef release(self)
