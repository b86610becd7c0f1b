# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Waiting for records and batches in an event loop.

A settled record costs no future of the loop and no turn of it. A task that must wait gets a future
of the loop, kept together with all others of the same loop that wait for the same batch, and with
the done-callbacks that the loop is to call; the sender wakes them all by one call.

Thread-safety: `LoopBatchWaiters.release` the sender's; the rest the loop's thread.
"""

cimport cython

from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.collector cimport track_again
from kprod._core.aio.loop_mailbox cimport LoopCall, LoopMailbox, calls_of_running_loop
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.aio.compiled_coroutine cimport CompiledCoroutine


@cython.final
cdef class LoopBatchWaiters(LoopCall):
    """All that waits for one batch in one loop; registered with the batch as a single waiter."""

    def release(self) -> None:
        """Wake them all; as a lock that a thread waits for."""
        self._calls.add(self)

    def close_after_fork(self) -> None:
        """Wake them in a forked child, if it is a copy of the loop's thread."""
        if self._calls.is_of_this_thread():
            self.arrive()

    cdef int arrive(self) except -1:
        if self._calls.by_result.get(self._result) is self:
            del self._calls.by_result[self._result]
        waiters = self._waiters
        self._waiters = {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        done_calls = self._done_calls
        self._done_calls = None
        if done_calls is not None:
            for future, calls in done_calls.items():
                call_in_loop(self._calls, <RecordFuture>future, calls)
        return 0

    cdef int leave(self, object waiter) except -1:
        self._waiters.pop(waiter, None)
        return 0


cdef LoopBatchWaiters listeners_in(LoopMailbox calls, BatchResult result, bint until_finished):
    """What waits for a batch in a loop, begun if nothing does yet.

    None if the batch is settled (finished, with `until_finished`) or split, unless its listeners
    are still to be told so.
    """
    cdef LoopBatchWaiters waiters = calls.by_result.get(result)
    cdef bint is_settled
    if waiters is not None:
        return waiters
    waiters = LoopBatchWaiters.__new__(LoopBatchWaiters)
    waiters._calls = calls
    waiters._result = result
    waiters._waiters = {}
    # Made first: a collection of garbage in there may let another thread settle the batch.
    alone = [waiters]
    with cython.critical_section(result):
        is_settled = result._parts is not None or (
            result.finished if until_finished else result.done
        )
        if not is_settled:
            if result._waiters is None:
                result._waiters = alone
                track_again(result)
            else:
                result._waiters.append(waiters)
    if is_settled:
        return None
    calls.by_result[result] = waiters
    return waiters


cdef int call_in_loop(LoopMailbox calls, RecordFuture future, list done_calls) except -1:
    """Have the running loop make calls of a future once it is done: soon, if it is.

    Args:
        calls: Of the loop.
        future: What the callbacks are called with.
        done_calls: Pairs of a callback and its context.
    """
    cdef BatchResult result
    cdef LoopBatchWaiters waiters
    while True:
        result = future._settled_by()
        if result.done:
            for callback, context in done_calls:
                call_soon(calls.loop, callback, future, context)
            return 0
        waiters = listeners_in(calls, result, False)
        if waiters is not None:
            if waiters._done_calls is None:
                waiters._done_calls = {}
            known = waiters._done_calls.get(future)
            waiters._done_calls[future] = done_calls if known is None else known + done_calls
            return 0


cdef int call_soon(object loop, object callback, RecordFuture future, object context) except -1:
    """Have a loop call a callback; one that the loop refuses must not cost the others their call.

    A loop in debug mode refuses coroutine functions.
    """
    try:
        loop.call_soon(callback, future, context=context)
    except Exception as raised:
        loop.call_exception_handler(
            {"message": f"a delivery callback cannot be called: {callback!r}", "exception": raised}
        )
    return 0


cdef class ResultWait(CompiledCoroutine):
    """Waits until a batch is done, or until it is finished: done, and its callbacks have run."""

    cdef object _listen(self, BatchResult result):
        """A future that is settled when the batch may be; None if it is already."""
        cdef LoopMailbox calls = calls_of_running_loop()
        cdef LoopBatchWaiters waiters = listeners_in(calls, result, self._until_finished)
        if waiters is None:
            return None
        waiter = calls.loop.create_future()
        waiters._waiters[waiter] = None
        self._waiters = waiters
        self._waiter = waiter
        # As its own `await` would: the task then knows what it waits for.
        return next(iter(waiter))

    cdef int cancel(self) except -1:
        if self._waiters is not None:
            self._waiters.leave(self._waiter)
            self._waiters = None
            self._waiter = None
        return 0


@cython.final
cdef class DeliveryWait(ResultWait):
    """What awaiting a record's future does.

    Args:
        future: Of any producer, awaited in any loop.
    """

    def __cinit__(self, RecordFuture future not None):
        self._future = future

    cdef object advance(self):
        cdef BatchResult result
        self.cancel()
        while True:
            result = self._future._settled_by()
            if result.done:
                self.is_over = True
                if result.error is not None or result._record_errors is not None:
                    return self._future.result(0)
                return self._future._metadata(result)
            step = self._listen(result)
            if step is not None:
                return step


@cython.final
cdef class FinishWait(ResultWait):
    """Waits until batches, or all parts of each, are done and their callbacks have run.

    Args:
        results: Any number.
    """

    def __cinit__(self, results):
        self._open_results = list(results)
        self._until_finished = True

    cdef object advance(self):
        cdef BatchResult result
        self.cancel()
        while self._open_results:
            result = <BatchResult?>self._open_results.pop()
            if result._parts is not None:
                self._open_results.extend(result._parts)
            elif not result.finished:
                self._open_results.append(result)
                step = self._listen(result)
                if step is not None:
                    return step
        self.is_over = True
        return None
