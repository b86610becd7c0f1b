# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Waiting for records and batches in an event loop.

Awaiting a settled record needs neither a future of the loop nor an iteration of it. A task that
must wait gets a future of the loop, kept together with all others of the same loop that wait for
the same batch, and with the done-callbacks that the loop must call; the sender wakes them all by
one call.

Thread-safety: `LoopBatchWaiters.release` from any thread; all else on the loop's thread.
"""

cimport cython

from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.aio.loop_mailbox cimport LoopCall, LoopMailbox, calls_of_running_loop
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.aio.compiled_coroutine cimport CompiledCoroutine


@cython.final
cdef class LoopBatchWaiters(LoopCall):
    """All waiters of one loop for one batch; registered with the batch as a single waiter."""

    cdef int arrive(self) except -1:
        if self._mailbox.by_result.get(self._result) is self:
            del self._mailbox.by_result[self._result]
        waiters = self._waiters
        self._waiters = {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        done_calls = self._done_calls
        self._done_calls = None
        if done_calls is not None:
            for future, calls in done_calls.items():
                call_in_loop(self._mailbox, <RecordFuture>future, calls)
        return 0

    cdef int leave(self, object waiter) except -1:
        self._waiters.pop(waiter, None)
        return 0


cdef LoopBatchWaiters waiters_in(LoopMailbox calls, BatchResult result):
    """Return the waiters of a loop for a batch, registered with the batch if they are new.

    Returns None if the batch is done or split, unless earlier waiters have not been woken yet.
    """
    cdef LoopBatchWaiters waiters = calls.by_result.get(result)
    if waiters is not None:
        return waiters
    waiters = LoopBatchWaiters.__new__(LoopBatchWaiters)
    waiters._mailbox = calls
    waiters._result = result
    waiters._waiters = {}
    if not result.add_waiter(waiters, False):
        return None
    calls.by_result[result] = waiters
    return waiters


cdef int call_in_loop(LoopMailbox calls, RecordFuture future, list done_calls) except -1:
    """Have the running loop call callbacks once a future is done; soon, if it is done already.

    Args:
        calls: Mailbox of the loop.
        future: Argument of the callbacks.
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
        waiters = waiters_in(calls, result)
        if waiters is not None:
            if waiters._done_calls is None:
                waiters._done_calls = {}
            known = waiters._done_calls.get(future)
            waiters._done_calls[future] = done_calls if known is None else known + done_calls
            return 0


cdef int call_soon(object loop, object callback, RecordFuture future, object context) except -1:
    """Have a loop call a callback; if the loop rejects it, the others are still called.

    A loop in debug mode rejects coroutine functions.
    """
    try:
        loop.call_soon(callback, future, context=context)
    except Exception as raised:
        loop.call_exception_handler(
            {"message": f"a delivery callback cannot be called: {callback!r}", "exception": raised}
        )
    return 0


@cython.final
cdef class DeliveryWait(CompiledCoroutine):
    """The coroutine behind `await future`.

    Args:
        future: Future of any producer, awaited in any loop.
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
            step = self._wait_for(result)
            if step is not None:
                return step

    cdef object _wait_for(self, BatchResult result):
        """Return a future that is done when the batch may be settled; None if it is already."""
        cdef LoopMailbox calls = calls_of_running_loop()
        cdef LoopBatchWaiters waiters = waiters_in(calls, result)
        if waiters is None:
            return None
        waiter = calls.loop.create_future()
        waiters._waiters[waiter] = None
        self._waiters = waiters
        self._waiter = waiter
        # As awaiting the future would: the task then knows which future it waits for.
        return next(iter(waiter))

    cdef int cancel(self) except -1:
        if self._waiters is not None:
            self._waiters.leave(self._waiter)
            self._waiters = None
            self._waiter = None
        return 0
