# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
# Why: store forwarding, see "What decides it" in docs/performance.md.
"""The outcome of one batch, shared by the futures of its records.

A result refers to a future only while that future has a callback to call, and the future itself
holds the callback. Neither the list of callbacks nor the result is tracked by the garbage collector
until it refers to an object that may refer back: with one tracked object per record the collector
would traverse all pending records, again and again. No result and no error refers to buffer memory.

A future's index and result never change: each part of a split batch knows the index of its first
record in the whole batch, and a look-up descends to the part that has the record.

This module does not know the type of futures. `record_future` registers at import how to run a
callback and which record a callback belongs to.

Thread-safety: the sender settles results; any thread may make every other call.
Source: Kafka ProduceRequestResult (clients 4.3.1).
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from kprod._core.clock cimport Deadline
from kprod._core.collector cimport track_again, untrack
from kprod._core.threads cimport make_lock, wait_for

from kprod.errors import without_frames

# Set once by `register`, when the layer above is imported.
cdef object _report_callback_error = None

# Set once by `register_callbacks`, when `record_future` is imported; no callback is added before.
cdef CallbackRunner _run_callback = NULL
cdef CallbackIndex _callback_index = NULL


def register(*, report_callback_error):
    """Register the function that reports an exception raised by a callback.

    Args:
        report_callback_error: Takes the exception; an exception that it raises is ignored.
    """
    global _report_callback_error
    _report_callback_error = report_callback_error


cdef void register_callbacks(CallbackRunner run, CallbackIndex index_of) noexcept:
    """Register how to run an entry of a result's list of callbacks, and how to find its record."""
    global _run_callback, _callback_index
    _run_callback = run
    _callback_index = index_of


cdef class BatchObserver:
    """Observer of one batch's outcome.

    A subclass must implement `follow`, which is called on a split. The other hooks are optional, so
    they do nothing here.
    """

    cdef void settle(self, BatchResult result) noexcept:
        pass

    cdef void report(self) noexcept:
        pass

    cdef int follow(self, list forwards) except -1:
        raise NotImplementedError

    cdef void leave(self) noexcept:
        pass

    cdef void close_after_fork(self) noexcept:
        pass


@cython.auto_pickle(False)
cdef class BatchResult:
    """The outcome of a batch, shared by the futures of its records.

    It is done once. A batch that was split is done through its parts: `forward` moves the callbacks
    to them and wakes every waiter, which then finds the part that has its record.

    The garbage collector tracks a result only once it refers to objects that may refer back:
    waiters, observers or an error. Most results have none of these. Callbacks do not matter here,
    since the futures hold them.

    Thread-safety: `complete` and `forward` by the sender; all else from any thread.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self._callbacks = []
        # The collector does not traverse futures, so it need not traverse a list of them.
        untrack(self._callbacks)
        untrack(self)
        self.base_offset = -1
        self.log_append_time_ms = -1

    def complete(
        self, int64_t base_offset=-1, int64_t log_append_time_ms=-1, error=None, record_errors=None
    ) -> bool:
        """Settle the batch, run its callbacks in record order, then wake all waiters.

        Args:
            base_offset: Offset of the first record; −1 if the broker did not give one.
            log_append_time_ms: The broker's timestamp for all records; −1 keeps their own.
            error: Error for all records; None for success. Its traceback is dropped.
            record_errors: Errors of single records by index; they take precedence over `error`.
                Their tracebacks are dropped.

        Returns:
            False if it was settled before; then nothing changes.
        """
        cdef list callbacks
        cdef list listeners
        cdef BatchObserver listener
        if error is not None or record_errors is not None:
            _drop_frames(error, record_errors)
            track_again(self)
        with cython.critical_section(self):
            if self.done or self._parts is not None:
                return False
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.error = error
            self._record_errors = record_errors
            self.done = True
            self.direct_path = None
            callbacks = self._callbacks
            self._callbacks = None
            listeners = self._listeners
            self._listeners = None
        if listeners is not None:
            for listener in listeners:
                listener.settle(self)
        # Before the callbacks, since a callback may wait for a thread that waits here.
        self._wake_waiters()
        if callbacks is not None:
            if self._callbacks_unordered:
                _put_in_order(callbacks)
            for entry in callbacks:
                _run_callback(entry)
            callbacks = None
        if listeners is not None:
            for listener in listeners:
                listener.report()
        self.finished = True
        self._wake_waiters()
        return True

    def abandon(self, error) -> None:
        """Settle the batch without its callbacks, in a forked child, which has no sender.

        Waiters are woken, since a signal handler may have forked in a waiting thread. No lock is
        taken, since the thread that held it may not exist in this process.

        Args:
            error: Error for all records that were not settled before the fork.
        """
        cdef BatchObserver listener
        cdef BatchResult part
        if self._parts is not None:
            for part in self._parts:
                part.abandon(error)
            return
        cdef list listeners = self._listeners
        cdef list waiters = self._waiters
        self.direct_path = None
        self._callbacks = None
        self._listeners = None
        self._waiters = None
        if not self.done:
            track_again(self)
            self.error = error
            self.done = True
        self.finished = True
        if listeners is not None:
            for listener in listeners:
                listener.close_after_fork()
        if waiters is not None:
            for waiter in waiters:
                _wake_in_child(waiter)

    def wait_finished(self, double timeout_s) -> bool:
        """Wait until the batch, or every part of it, is done and its callbacks have run.

        Args:
            timeout_s: Seconds; negative for no limit.

        Returns:
            False if the timeout expired.
        """
        cdef Deadline deadline = Deadline(None if timeout_s < 0 else timeout_s)
        cdef BatchResult part = self.unfinished_part()
        while part is not None:
            if not wait_once(part, deadline.wait_s(), True):
                return False
            part = self.unfinished_part()
        return True

    cpdef BatchResult unfinished_part(self):
        """Return this batch, or a part of it, that is neither finished nor split; else None."""
        cdef list results = [self]
        cdef BatchResult result
        while results:
            result = <BatchResult>results.pop()
            if result._parts is not None:
                results.extend(result._parts)
            elif not result.finished:
                return result
        return None

    def failed_count(self, record_count: int) -> int:
        """Return how many of the batch's first records have failed or are not done yet.

        Args:
            record_count: Number of records to count; later ones may have been appended.
        """
        return self._failed_before(self._first_index + <int64_t>record_count)

    cdef int64_t _failed_before(self, int64_t end_index) except -1:
        """Count as `failed_count`, for records below `end_index` in the batch split first."""
        cdef int64_t record_count = max(end_index - self._first_index, <int64_t>0)
        cdef int64_t failed_count = 0
        cdef BatchResult part
        if self._parts is not None:
            # From the last part to the first: each part ends where the next one begins.
            for part in reversed(self._parts):
                failed_count += part._failed_before(end_index)
                end_index = min(end_index, <int64_t>part._first_index)
            return failed_count
        if not self.done or self.error is not None:
            return record_count
        if self._record_errors is not None:
            # An index may be a later record's, and a broker may name one outside the batch.
            for index in self._record_errors:
                failed_count += 0 <= index < record_count
        return failed_count

    def forward(self, children) -> None:
        """Replace this result by the results of a split batch's parts.

        If memory runs out, nothing changes and this result still covers its records.

        Args:
            children: Pairs of the first index of a part and its result, ascending from index 0.
                No other code may refer to these results yet.
        """
        cdef BatchObserver listener
        cdef BatchResult part
        cdef list forwards = [(int(first), <BatchResult?>child) for first, child in children]
        if not forwards or forwards[0][0] != 0:
            raise ValueError("the parts of a batch begin with its first record, at index 0")
        cdef list parts = []
        for first_index, part in forwards:
            part._first_index = self._first_index + <int32_t>first_index
            parts.append(part)
        with cython.critical_section(self):
            # Steps that can fail come first; they change only the parts.
            if self._listeners is not None:
                for listener in self._listeners:
                    listener.follow(forwards)
            for part in parts:
                part._callbacks_unordered = self._callbacks_unordered
            if self._callbacks is not None:
                for entry in self._callbacks:
                    part_with(parts, _callback_index(entry))._callbacks.append(entry)
            if self._listeners is not None:
                for listener in self._listeners:
                    listener.leave()
                self._listeners = None
            self.direct_path = None
            self._callbacks = None
            self._parts = parts
        self._wake_waiters()

    cpdef bint add_waiter(self, object waiter, bint until_finished=True) except -1:
        """Register a waiter, whose `release` is called when the batch is done, finished or split.

        Args:
            waiter: A lock, or an object with a `release` like a lock's.
            until_finished: Whether the waiter waits until the batch is finished, not only done.

        Returns:
            False if that has already happened; then nothing changes.
        """
        # Created before the critical section: a garbage collection in it may let others settle it.
        cdef list alone = [waiter]
        with cython.critical_section(self):
            if self._parts is not None or (self.finished if until_finished else self.done):
                return False
            if self._waiters is None:
                self._waiters = alone
                track_again(self)
            else:
                self._waiters.append(waiter)
        return True

    cpdef remove_waiter(self, object waiter):
        """Undo `add_waiter`; no effect on a waiter that is not registered any more."""
        with cython.critical_section(self):
            waiters = self._waiters
            if waiters is not None and waiter in waiters:
                waiters.remove(waiter)

    cpdef bint has_no_observers(self) except -1:
        """Return whether completing it now would notify nobody: no callback, observer or waiter."""
        return (
            not self.done
            and self._listeners is None
            and not self._callbacks
            and not self._waiters
        )

    cdef void _wake_waiters(self) noexcept:
        """Wake every waiter, even if waking one raises: event loops are woken by Python code."""
        cdef list waiters
        with cython.critical_section(self):
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            for lock in waiters:
                try:
                    lock.release()
                except BaseException as raised:
                    report_raised(raised)


def _index_of_entry(entry):
    return _callback_index(entry)


cdef int _drop_frames(object error, object record_errors) except -1:
    try:
        if error is not None:
            without_frames(error)
        if record_errors is not None:
            for record_error in record_errors.values():
                without_frames(record_error)
    except Exception:
        # The error keeps its traceback.
        pass
    return 0


cdef int _put_in_order(list callbacks) except -1:
    try:
        callbacks.sort(key=_index_of_entry)
    except MemoryError:
        # Callbacks out of order are better than none.
        pass
    return 0


cdef BatchResult part_with(list parts, int32_t index):
    """Return the part of a split batch that has a record, by its index in the batch split first."""
    cdef Py_ssize_t place = PyList_GET_SIZE(parts) - 1
    while place > 0 and (<BatchResult>parts[place])._first_index > index:
        place -= 1
    return <BatchResult>parts[place]


cdef int _wake_in_child(object waiter) except -1:
    """Wake a waiter after a fork: in its own way if it has one, else as a lock."""
    try:
        getattr(waiter, "close_after_fork", waiter.release)()
    except BaseException as raised:
        report_raised(raised)
    return 0


cdef int report_raised(object raised) except -1:
    """Report an exception that application code raised; ignore any that the report raises."""
    try:
        _report_callback_error(raised)
    except BaseException:
        # A logging handler that raises must not keep the other records from their outcome.
        pass
    return 0


cdef bint wait_once(BatchResult result, object seconds, bint until_finished) except -1:
    """Wait until the result is done (or finished) or split; return False on timeout."""
    direct_path = result.direct_path
    if direct_path is not None and seconds != 0 and direct_path.await_response(result, seconds):
        return True  # the caller re-checks the result either way
    lock = make_lock()
    lock.acquire()
    if not result.add_waiter(lock, until_finished):
        return True
    try:
        # Only this call can be interrupted by a signal handler that raises.
        return wait_for(lock, seconds)
    finally:
        result.remove_waiter(lock)
