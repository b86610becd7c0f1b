from cpython.pythread cimport PyThread_type_lock

from kprod._core.timer.timer_task cimport TimerTask


cdef class WatchedTask(TimerTask):
    cdef public object delay_ms
    cdef public object lock
    cdef public bint completed
    cdef list _places

    cpdef object run(self)
    cdef int leave_places(self) except -1


cdef class WatchShard:
    cdef PyThread_type_lock _lock
    cdef dict lists

    cdef void acquire(self) noexcept
    cdef void release(self) noexcept


cdef class WatchLists:
    cdef dict _shards
    cdef Py_ssize_t _shard_count
    cdef public Py_ssize_t added_count

    cdef object _position_of(self, object key)
    cdef WatchShard _shard_of(self, object key)
    cdef WatchShard _new_shard_of(self, object key)
