# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
# Why: store forwarding, see "What decides it" in docs/performance.md.
"""The future of one record, which `send` returns.

A future is a few words that the garbage collector does not track: its batch's `BatchResult`, the
record's index in that batch, and its callback until that is called. The index and the result never
change, however many callbacks the future has; after a split, a look-up descends to the part that
has the record.

Thread-safety: any thread.
Source: Kafka FutureRecordMetadata (clients 4.3.1).
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from kprod._core.outcome.batch_result cimport (
    BatchResult,
    part_with,
    register_callbacks,
    report_raised,
    wait_once,
)
from kprod._core.clock cimport Deadline
from kprod._core.outcome.self_wait cimport reject_self_wait
from kprod._core.outcome.record_metadata cimport new_metadata

from kprod.errors import KprodTimeout, own_copy

# Types and functions of higher layers; set once by `register`, when they are imported.
cdef object _metadata_type = None
cdef object _await_future = None
cdef object _to_concurrent = None
cdef object _done_calls = None
cdef object _describe = None


def register(*, metadata_type, await_future, to_concurrent, done_calls, describe):
    """Register the types and functions of higher layers that the compiled core uses.

    Args:
        metadata_type: A named tuple of topic, partition, offset, timestamp_ms, key and value size.
        await_future: Called with a future; returns an awaitable's iterator.
        to_concurrent: Called with a future; returns a `concurrent.futures.Future`.
        done_calls: The module `done_calls`, which uses this one.
        describe: Called with a future, its topic and partition; returns its `repr`.
    """
    global _metadata_type, _await_future, _to_concurrent, _done_calls, _describe
    _metadata_type = metadata_type
    _await_future = await_future
    _to_concurrent = to_concurrent
    _done_calls = done_calls
    _describe = describe


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
        # A copy, or a future in another process, would never be settled.
        raise TypeError("a RecordFuture cannot be pickled or copied; its result() can")

    @cython.nonecheck(False)
    cdef BatchResult _settled_by(self):
        """Return the result that covers this record, past all splits so far."""
        cdef BatchResult result = self._result
        if result is None:
            raise TypeError("a RecordFuture is made by Producer.send; this one was not")
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

    # Without binding the interpreter calls a method faster, but the method has no signature. So the
    # methods that may be called for each record have theirs embedded in the docstring.
    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def done(self) -> bool:
        """Return True once the record is settled; it never becomes False again."""
        return self._settled_by().done

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def result(self, timeout=None):
        """Wait for the record's metadata. Waiting does not shorten linger.

        Args:
            timeout: Seconds; None waits without limit, but `delivery_timeout_ms` bounds it.

        Returns:
            A `RecordMetadata`.

        Raises:
            KprodTimeout: Not settled in time; the record is still being sent.
            KprodError: The error that ended the send; its `persistence` says whether the record
                may be in the log. An error without it means that a callback of the same producer
                called this, whose thread would wait for itself.
            ValueError: The record is not settled, and the timeout is NaN.
            TypeError: The record is not settled, and the timeout is not a number.
        """
        cdef BatchResult result = self._outcome(timeout)
        error = self._error(result)
        if error is not None:
            # Each caller gets its own exception: a shared one would collect tracebacks.
            raise own_copy(error)
        return self._metadata(result)

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def exception(self, timeout=None):
        """Wait for the outcome, and return the error that ended the send, or None.

        Args:
            timeout: Seconds; None waits without limit.

        Raises:
            KprodTimeout: Not settled in time; the record is still being sent.
            KprodError: A callback of the same producer called this, whose thread would wait for
                itself.
            ValueError: The record is not settled, and the timeout is NaN.
            TypeError: The record is not settled, and the timeout is not a number.
        """
        return self._error(self._outcome(timeout))

    cdef BatchResult _outcome(self, object timeout):
        """Wait for the outcome, and return the result that settled this record."""
        cdef BatchResult result = self._settled_by()
        return result if result.done else self._wait(result, timeout)

    cdef BatchResult _wait(self, BatchResult result, object timeout):
        cdef Deadline deadline = Deadline(timeout)
        if not deadline.is_over():
            reject_self_wait(result)
        while not result.done:
            if not wait_once(result, deadline.wait_s(), False):
                raise KprodTimeout(
                    f"the record for {result.topic!r} partition {result.partition} was not settled"
                    f" within {timeout} s; it continues until delivery_timeout_ms ends it"
                )
            result = self._settled_by()
        return result

    @cython.binding(False)
    @cython.embedsignature(True)
    @cython.embedsignature.format("clinic")
    def add_done_callback(self, callback, context=None) -> None:
        """Call `callback(future)` once the record is settled.

        If it is added in a running event loop, that loop calls it, as for an asyncio future.
        Otherwise it runs on the sender's thread (or at once on this one, if the record is already
        settled), in record order within a batch, with no lock held; an exception that it raises is
        logged.

        Args:
            callback: Takes the future.
            context: Context to run it in; None, in a loop, for a copy of the current one.
        """
        _done_calls.add_done_call(self, callback, context)

    def remove_done_callback(self, callback) -> int:
        """Remove a callback: in an event loop one added in that loop, else one added in none.

        Returns how many times it had been added and was not called yet.
        """
        return _done_calls.remove_done_call(self, callback)

    def cancel(self, msg=None) -> bool:
        """Do nothing and return False: only `purge` can drop an accepted record."""
        return False

    def cancelled(self) -> bool:
        """Return False: no record is ever cancelled."""
        return False

    def __repr__(self):
        return _describe(self, self._result.topic, self._result.partition)

    def __await__(self):
        return _await_future(self)

    def to_concurrent(self):
        """Return a `concurrent.futures.Future` with the same outcome.

        Its own methods reject a wait inside a callback of the same producer, as this future's do.
        `concurrent.futures.wait` and `as_completed` cannot: there they wait forever unless they
        have a timeout. `kprod.wait` rejects such a wait.
        """
        return _to_concurrent(self)


cdef inline RecordFuture _future_of(object entry):
    """Return the future of an entry: the entry itself, or the first of a triple."""
    return <RecordFuture>(entry[0] if isinstance(entry, tuple) else entry)


cdef int32_t _index_of(object entry) except? -1:
    return _future_of(entry)._index


cdef int call_back(object entry) except -1:
    """Run one callback; an exception that it raises is reported and stops nothing else."""
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
        report_raised(raised)
    return 0


register_callbacks(call_back, _index_of)
