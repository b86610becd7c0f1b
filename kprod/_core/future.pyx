# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
"""What became of a batch, and of each record in it.

Futures are a few words and not tracked by the garbage collector: a future knows its batch's shared
result and its index there. The result keeps a future only when it has a callback to call, and the
future keeps that callback until it is called: a tracked object for each would make the collector
walk all that wait, again and again. No result and no error refers to buffer memory.

A future's index and result never change, however many callbacks it has: each part of a split batch
knows where it begins in the whole, and a look-up walks to the part that has the index.

Thread-safety: results are settled by the sender; everything else any thread.
Source: Kafka ProduceRequestResult, FutureRecordMetadata (clients 4.3.1).
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from kprod._core.clock cimport Deadline
from kprod._core.collector cimport track_again, untrack
from kprod._core.own_wait cimport refuse_own_wait
from kprod._core.record_metadata cimport new_metadata
from _thread import allocate_lock

from kprod.errors import KprodTimeout, own_copy, without_frames

# Made by higher layers; set once, by `register`.
cdef object _metadata_type = None
cdef object _report_callback_error = None
cdef object _await_future = None
cdef object _to_concurrent = None
cdef object _done_calls = None
cdef object _describe = None


def register(
    *, metadata_type, report_callback_error, await_future, to_concurrent, done_calls, describe
):
    """Tell the compiled core about types and policies above it.

    Args:
        metadata_type: A named tuple of topic, partition, offset, timestamp_ms, key and value size.
        report_callback_error: Called with an exception that a callback raised.
        await_future: Called with a future, returns an awaitable's iterator.
        to_concurrent: Called with a future, returns a `concurrent.futures.Future`.
        done_calls: The module `done_calls`, which uses this one.
        describe: Called with a future, its topic and partition, returns its `repr`.
    """
    global _metadata_type, _report_callback_error, _await_future, _to_concurrent, _done_calls
    global _describe
    _metadata_type = metadata_type
    _report_callback_error = report_callback_error
    _await_future = await_future
    _to_concurrent = to_concurrent
    _done_calls = done_calls
    _describe = describe


cdef class BatchListener:
    """Is told once what became of a batch; must follow a split, may leave out the rest."""

    cdef void settle(self, BatchResult result) noexcept:
        pass

    cdef void report(self) noexcept:
        pass

    cdef int follow(self, list forwards) except -1:
        raise NotImplementedError

    cdef void leave(self) noexcept:
        pass

    cdef void forsake(self) noexcept:
        pass


@cython.auto_pickle(False)
cdef class BatchResult:
    """What became of a batch, shared by the futures of its records.

    It is done once. A batch that was split is done through its parts: `forward` hands callbacks on
    and wakes every waiter, which then finds the part that has its record.

    The collector walks it once something leads out of it that may lead back: who waits or listens,
    or an error. Most have none of these; of callbacks it knows nothing, since futures have them.

    Thread-safety: `complete` and `forward` by the sender; everything else any thread.
    """

    def __init__(self, str topic not None, int32_t partition):
        self.topic = topic
        self.partition = partition
        self._callbacks = []
        # The collector cannot see through futures, and so not through a list of them either.
        untrack(self._callbacks)
        untrack(self)
        self.base_offset = -1
        self.log_append_time_ms = -1

    def complete(
        self, int64_t base_offset=-1, int64_t log_append_time_ms=-1, error=None, record_errors=None
    ) -> bool:
        """Settle the batch, run its callbacks in record order, then wake who waits.

        Args:
            base_offset: Of the first record; −1 when the broker did not say.
            log_append_time_ms: The broker's timestamp for all records; −1 keeps their own.
            error: For all records; None is success. Loses its traceback.
            record_errors: Errors of single records by index; they go before `error`, and lose
                theirs.

        Returns:
            False if it was settled before; then nothing changes.
        """
        cdef list callbacks
        cdef list listeners
        cdef BatchListener listener
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
            self.lane = None
            callbacks = self._callbacks
            self._callbacks = None
            listeners = self._listeners
            self._listeners = None
        if listeners is not None:
            for listener in listeners:
                listener.settle(self)
        # Before the callbacks: one of them may wait for a thread that waits here.
        self._wake_waiters()
        if callbacks is not None:
            if self._callbacks_unordered:
                _put_in_order(callbacks)
            for entry in callbacks:
                call_back(entry)
            callbacks = None
        if listeners is not None:
            for listener in listeners:
                listener.report()
        self.finished = True
        self._wake_waiters()
        return True

    def abandon(self, error) -> None:
        """Settle the batch without its callbacks; in a forked child, where nobody else will.

        Waiters are woken: a signal handler may have forked the thread that waits. No lock is taken,
        since its holder may not be in this process.

        Args:
            error: For all records that were not settled before the fork.
        """
        cdef BatchListener listener
        cdef BatchResult part
        if self._parts is not None:
            for part in self._parts:
                part.abandon(error)
            return
        cdef list listeners = self._listeners
        cdef list waiters = self._waiters
        self.lane = None
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
                listener.forsake()
        if waiters is not None:
            for waiter in waiters:
                _wake_in_child(waiter)

    def wait_finished(self, double timeout_s) -> bool:
        """Wait until the batch, or every part of it, is done and its callbacks have run.

        Args:
            timeout_s: Seconds; negative waits as long as it takes.

        Returns:
            False when the time is over.
        """
        cdef Deadline deadline = Deadline(None if timeout_s < 0 else timeout_s)
        cdef list open_results = [self]
        cdef BatchResult result
        while open_results:
            result = <BatchResult>open_results.pop()
            if result._parts is not None:
                open_results.extend(result._parts)
            elif not result.finished:
                open_results.append(result)
                if not _wait_once(result, deadline.wait_s(), True):
                    return False
        return True

    def failed_count(self, record_count: int) -> int:
        """How many of the batch's first records are not delivered: failed, or not done yet.

        Args:
            record_count: How many records are meant; others may have been appended behind them.
        """
        return self._failed_before(self._first_index + <int64_t>record_count)

    cdef int64_t _failed_before(self, int64_t end_index) except -1:
        """As `failed_count`, of the records whose index in the first batch is below `end_index`."""
        cdef int64_t record_count = max(end_index - self._first_index, <int64_t>0)
        cdef int64_t failed_count = 0
        cdef BatchResult part
        if self._parts is not None:
            # From the last part to the first: each ends where the one behind it begins.
            for part in reversed(self._parts):
                failed_count += part._failed_before(end_index)
                end_index = min(end_index, <int64_t>part._first_index)
            return failed_count
        if not self.done or self.error is not None:
            return record_count
        if self._record_errors is not None:
            # Some may be of records behind these, and a broker may name what is not in the batch.
            for index in self._record_errors:
                failed_count += 0 <= index < record_count
        return failed_count

    def forward(self, children) -> None:
        """Let the results of a split batch's parts answer for this one.

        All of it or, without memory, nothing: then this one still answers for its records.

        Args:
            children: Pairs of the first index of a part and its result, ascending from index 0.
                Nobody knows these results yet.
        """
        cdef BatchListener listener
        cdef BatchResult part
        cdef list forwards = [(int(first), <BatchResult?>child) for first, child in children]
        if not forwards or forwards[0][0] != 0:
            raise ValueError("the parts of a batch begin with its first record, at index 0")
        cdef list parts = []
        for first_index, part in forwards:
            part._first_index = self._first_index + <int32_t>first_index
            parts.append(part)
        with cython.critical_section(self):
            # First what can fail; it touches nothing but the parts.
            if self._listeners is not None:
                for listener in self._listeners:
                    listener.follow(forwards)
            for part in parts:
                part._callbacks_unordered = self._callbacks_unordered
            if self._callbacks is not None:
                for entry in self._callbacks:
                    part_with(parts, _future_of(entry)._index)._callbacks.append(entry)
            if self._listeners is not None:
                for listener in self._listeners:
                    listener.leave()
                self._listeners = None
            self.lane = None
            self._callbacks = None
            self._parts = parts
        self._wake_waiters()

    cpdef bint await_by(self, object waiter) except -1:
        """Have `waiter.release()` called when the batch is done, finished or split; any thread.

        Args:
            waiter: A lock, or what can be released as one.

        Returns:
            False if that was before; then nothing changes.
        """
        # Made first: a collection of garbage in here may let another thread settle the batch.
        cdef list alone = [waiter]
        with cython.critical_section(self):
            if self.finished or self._parts is not None:
                return False
            if self._waiters is None:
                self._waiters = alone
                track_again(self)
            else:
                self._waiters.append(waiter)
        return True

    cpdef forgo(self, object waiter):
        """Undo `await_by`, if that is still to be undone."""
        with cython.critical_section(self):
            waiters = self._waiters
            if waiters is not None and waiter in waiters:
                waiters.remove(waiter)

    cpdef bint is_unheard(self) except -1:
        """Whether nobody would hear of it, if it were done now: no callback, listener or waiter."""
        return (
            not self.done
            and self._listeners is None
            and not self._callbacks
            and not self._waiters
        )

    cdef void _wake_waiters(self) noexcept:
        """Wake everyone, whatever becomes of telling one of them: some are event loops."""
        cdef list waiters
        with cython.critical_section(self):
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            for lock in waiters:
                try:
                    lock.release()
                except BaseException as raised:
                    _report(raised)


cdef inline RecordFuture _future_of(object entry):
    """Of a future with `on_delivery`, or of a triple of a future and what was added later."""
    return <RecordFuture>(entry[0] if isinstance(entry, tuple) else entry)


def _index_of_entry(entry):
    return _future_of(entry)._index


cdef int _drop_frames(object error, object record_errors) except -1:
    try:
        if error is not None:
            without_frames(error)
        if record_errors is not None:
            for record_error in record_errors.values():
                without_frames(record_error)
    except Exception:
        # It is kept as it is.
        pass
    return 0


cdef int _put_in_order(list callbacks) except -1:
    try:
        callbacks.sort(key=_index_of_entry)
    except MemoryError:
        # Better out of order than not at all.
        pass
    return 0


cdef BatchResult part_with(list parts, int32_t index):
    """The part of a split batch that has the record of this index in the first batch."""
    cdef Py_ssize_t place = PyList_GET_SIZE(parts) - 1
    while place > 0 and (<BatchResult>parts[place])._first_index > index:
        place -= 1
    return <BatchResult>parts[place]


cdef int _wake_in_child(object waiter) except -1:
    """Wake a waiter after a fork: in its own way if it has one, else as a lock."""
    try:
        getattr(waiter, "forsake", waiter.release)()
    except BaseException as raised:
        _report(raised)
    return 0


cdef int _report(object raised) except -1:
    try:
        _report_callback_error(raised)
    except BaseException:
        # A logging handler that raises must not keep the other records from their outcome.
        pass
    return 0


cdef int call_back(object entry) except -1:
    """Run one callback; whatever it raises is reported and stops nothing else."""
    cdef RecordFuture future = _future_of(entry)
    cdef BatchResult result = future._settled_by()
    cdef object on_delivery
    try:
        if isinstance(entry, tuple):
            _, callback, context = entry
            if context is None:
                callback(future)
            else:
                context.run(callback, future)
        else:
            on_delivery = future._on_delivery
            future._on_delivery = None
            error = future._error(result)
            if error is None:
                on_delivery(future._metadata(result), None)
            else:
                on_delivery(None, error)
    except BaseException as raised:
        _report(raised)
    return 0


@cython.no_gc
@cython.final
@cython.freelist(512)
cdef class RecordFuture:
    """The outcome of one `send`: a `RecordMetadata`, or the error that ended it.

    Thread-safety: any thread; awaitable from any running asyncio loop.
    """

    def __init__(self):
        raise TypeError("a RecordFuture is made by Producer.send")

    def __reduce__(self):
        # Of a copy, or in another process, nobody would ever settle it.
        raise TypeError("a RecordFuture cannot be pickled or copied; its result() can")

    @cython.nonecheck(False)
    cdef BatchResult _settled_by(self):
        """The result that answers for this record, past all splits so far."""
        cdef BatchResult result = self._result
        if result is None:
            raise TypeError("a RecordFuture is made by Producer.send; this one is of no record")
        while result._parts is not None:
            result = part_with(result._parts, self._index)
        return result

    cdef object _metadata(self, BatchResult result):
        cdef int64_t offset = -1
        cdef int64_t timestamp_ms = result.log_append_time_ms
        if result.base_offset >= 0:
            offset = result.base_offset + (self._index - result._first_index)
        if timestamp_ms < 0:
            timestamp_ms = self._timestamp_ms
        return new_metadata(
            _metadata_type, result.topic, result.partition, offset, timestamp_ms, self._key_bytes,
            self._value_bytes,
        )

    cdef object _error(self, BatchResult result):
        if result._record_errors is not None:
            return result._record_errors.get(self._index - result._first_index, result.error)
        return result.error

    # The interpreter calls a plain method faster than one that knows its signature, so what may be
    # called for each record says in its text what it is called with.
    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def done(self) -> bool:
        """Whether the record's fate is settled, as a bool; once True, for ever."""
        return self._settled_by().done

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def result(self, timeout=None):
        """Wait for the record's metadata. Waiting does not cut linger short.

        Args:
            timeout: Seconds; None waits as long as it takes, which `delivery_timeout_ms` bounds.

        Returns:
            A `RecordMetadata`.

        Raises:
            KprodTimeout: Not settled in time; the record goes on.
            KprodError: The error that ended the send; its `persistence` says whether the record
                may be in the log. Without one: asked inside a callback of the same producer, whose
                thread would wait for itself.
            ValueError: Not settled, and the timeout is NaN.
        """
        cdef BatchResult result = self._outcome(timeout)
        error = self._error(result)
        if error is not None:
            # Each caller gets an exception of its own: a shared one would gather tracebacks.
            raise own_copy(error)
        return self._metadata(result)

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def exception(self, timeout=None):
        """Wait for the outcome, and return the error that ended the send, or None.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            KprodTimeout: Not settled in time; the record goes on.
            KprodError: Asked inside a callback of the same producer, whose thread would wait for
                itself.
            ValueError: Not settled, and the timeout is NaN.
        """
        return self._error(self._outcome(timeout))

    cdef BatchResult _outcome(self, object timeout):
        """The result that settled this record; waits for it."""
        cdef BatchResult result = self._settled_by()
        return result if result.done else self._wait(result, timeout)

    cdef BatchResult _wait(self, BatchResult result, object timeout):
        cdef Deadline deadline = Deadline(timeout)
        if not deadline.is_over():
            refuse_own_wait(result)
        while not result.done:
            if not _wait_once(result, deadline.wait_s(), False):
                raise KprodTimeout(
                    f"the record for {result.topic!r} partition {result.partition} was not settled"
                    f" within {timeout} s; it goes on until delivery_timeout_ms ends it"
                )
            result = self._settled_by()
        return result

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def add_done_callback(self, callback, context=None) -> None:
        """Call `callback(future)` once the record is settled.

        Added in a running event loop, it is called by that loop, as one of an asyncio future is.
        Otherwise it runs on the sender's thread (here, at once, if the record is settled already),
        in record order within a batch, outside every lock; what it raises is logged.

        Args:
            callback: Takes the future.
            context: To run it in; None, in a loop, is a copy of the present one.
        """
        _done_calls.add_done_call(self, callback, context)

    def remove_done_callback(self, callback) -> int:
        """Take back a callback: in an event loop one that was added there, else one of no loop.

        Returns how many times it had been added and was not called yet.
        """
        return _done_calls.remove_done_call(self, callback)

    def cancel(self, msg=None) -> bool:
        """Do nothing and return False: an accepted record is taken back by `purge` only."""
        return False

    def cancelled(self) -> bool:
        """Whether the record was cancelled; no record ever is."""
        return False

    def __repr__(self):
        return _describe(self, self._result.topic, self._result.partition)

    def __await__(self):
        return _await_future(self)

    def to_concurrent(self):
        """A `concurrent.futures.Future` with the same outcome; its waits refuse where these do.

        Not those of `concurrent.futures.wait` and `as_completed`, which know nothing of it: inside
        a callback of the same producer they wait for ever without a timeout. `kprod.wait` refuses.
        """
        return _to_concurrent(self)


cdef bint _wait_once(BatchResult result, object seconds, bint until_finished) except -1:
    """Wait until the result is done (finished) or forwarded; False when the time is over."""
    lane = result.lane
    if lane is not None and seconds != 0 and lane.fetch(result, seconds):
        return True  # whatever came of it: who waits looks again
    lock = allocate_lock()
    lock.acquire()
    if not result.await_by(lock):
        return True
    try:
        if result.done and not until_finished:
            return True
        # Only this call can be interrupted by a signal handler that raises.
        return lock.acquire(True, seconds)
    finally:
        result.forgo(lock)
