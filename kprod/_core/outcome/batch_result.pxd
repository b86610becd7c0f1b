from libc.stdint cimport int32_t, int64_t


cdef class BatchResult


# Observer of one batch's outcome, for compiled code that sends many records in one call.
cdef class BatchObserver:
    # The batch is done. Must neither block nor run application code.
    cdef void settle(self, BatchResult result) noexcept
    # The batch's callbacks have run; application code may run now.
    cdef void report(self) noexcept
    # The batch may be split: pairs of the first index of a part and its result, to which nothing
    # else refers yet. Steps that can fail belong here, and may change only those results.
    cdef int follow(self, list forwards) except -1
    # The batch is split: from now on the results of its parts report the outcome.
    cdef void leave(self) noexcept
    # This is a forked child, in which no batch is settled any more.
    cdef void close_after_fork(self) noexcept


cdef class BatchResult:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly bint done
    # Done, and every callback has returned.
    cdef readonly bint finished
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object error
    # Monotonic time of its first record; linger and delivery timeout count from it.
    cdef public int64_t created_ms
    # Lets a waiting thread read the response itself (`DirectPath`); None if that is not possible.
    cdef public object direct_path
    cdef dict _record_errors
    # Futures with `on_delivery`, and triples of a future, a callback and its context or None. None
    # when the batch is done or split.
    cdef list _callbacks
    cdef bint _callbacks_unordered
    cdef list _waiters
    # Results of the parts of a split batch; never changed once set.
    cdef list _parts
    # Index of its first record in the batch that was split first; 0 for a batch that is no part.
    cdef int32_t _first_index
    cdef list _listeners
    cdef int64_t _failed_before(self, int64_t end_index) except -1
    cdef void _wake_waiters(self) noexcept
    cpdef bint add_waiter(self, object waiter, bint until_finished=*) except -1
    cpdef remove_waiter(self, object waiter)
    cpdef BatchResult unfinished_part(self)
    cpdef bint has_no_observers(self) except -1


# Runs an entry of `_callbacks`, and gives the index of its record in the batch split first.
ctypedef int (*CallbackRunner)(object entry) except -1
ctypedef int32_t (*CallbackIndex)(object entry) except? -1

cdef void register_callbacks(CallbackRunner run, CallbackIndex index_of) noexcept
cdef int report_raised(object raised) except -1
cdef bint wait_once(BatchResult result, object seconds, bint until_finished) except -1
cdef BatchResult part_with(list parts, int32_t index)
