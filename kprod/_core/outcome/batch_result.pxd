from libc.stdint cimport int32_t, int64_t


cdef class BatchResult


# Who is told what became of a batch, beside its futures; compiled code's, for calls that send many.
cdef class BatchObserver:
    # The batch is done; must neither wait nor run the application's code.
    cdef void settle(self, BatchResult result) noexcept
    # Its callbacks have run; the application's turn.
    cdef void report(self) noexcept
    # It may be split: pairs of the first index of a part and its result, which nobody knows yet.
    # What can fail belongs here, and changes nothing but those results.
    cdef int follow(self, list forwards) except -1
    # It is split: the parts answer for it from now on.
    cdef void leave(self) noexcept
    # This is a forked child, where nothing is settled any more.
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
    # When its first record came, monotonic; linger and delivery timeout count from here.
    cdef public int64_t created_ms
    # Knows a shorter way to its outcome for one who waits for it, or None; see `DirectPath`.
    cdef public object direct_path
    cdef dict _record_errors
    # Futures with `on_delivery`, and triples of a future, a callback and its context or None. None
    # when the batch is done or split.
    cdef list _callbacks
    cdef bint _callbacks_unordered
    cdef list _waiters
    # Results of the parts of a split batch; not changed once it is set.
    cdef list _parts
    # Of its first record in the batch that was split first; 0 if it is no part of another.
    cdef int32_t _first_index
    cdef list _listeners
    cdef int64_t _failed_before(self, int64_t end_index) except -1
    cdef void _wake_waiters(self) noexcept
    cpdef bint add_waiter(self, object waiter, bint until_finished=*) except -1
    cpdef remove_waiter(self, object waiter)
    cpdef BatchResult unfinished_part(self)
    cpdef bint has_no_observers(self) except -1


# How to run an entry of `_callbacks`, and the index of its record in the first batch.
ctypedef int (*CallbackRunner)(object entry) except -1
ctypedef int32_t (*CallbackIndex)(object entry) except? -1

cdef void register_callbacks(CallbackRunner run, CallbackIndex index_of) noexcept
cdef int report_raised(object raised) except -1
cdef bint wait_once(BatchResult result, object seconds, bint until_finished) except -1
cdef BatchResult part_with(list parts, int32_t index)
