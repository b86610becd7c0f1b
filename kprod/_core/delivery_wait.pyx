# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Waiting for records and batches in an event loop.

What is settled costs no future of the loop and no turn of it. Who must wait gets a future, and
stands with all others of the same loop that wait for the same batch; the sender tells them once.

Thread-safety: `BatchListeners.release` the sender's; the rest the loop's thread.
"""

cimport cython

from kprod._core.collector cimport track_again
from kprod._core.future cimport BatchResult, RecordFuture
from kprod._core.loop_calls cimport LoopCall, LoopCalls, calls_of_running_loop
from kprod._core.steps cimport Steps


@cython.final
cdef class BatchListeners(LoopCall):
    """Everyone in one loop who waits for one batch. Stands among the batch's waiting threads."""

    def release(self) -> None:
        """Wake them all; as a lock that a thread waits for."""
        self._calls.add(self)

    cdef int arrive(self) except -1:
        if self._calls.by_result.get(self._result) is self:
            del self._calls.by_result[self._result]
        waiters = self._waiters
        self._waiters = {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return 0

    cdef int leave(self, object waiter) except -1:
        self._waiters.pop(waiter, None)
        return 0


cdef class ResultWait(Steps):
    """Waits until a batch is done, or until it is finished: done, and its callbacks have run."""

    cdef object _listen(self, BatchResult result):
        """A future that is settled when the batch may be; None if it is already."""
        cdef LoopCalls calls = calls_of_running_loop()
        cdef BatchListeners listeners = calls.by_result.get(result)
        cdef bint is_settled
        if listeners is None:
            listeners = BatchListeners.__new__(BatchListeners)
            listeners._calls = calls
            listeners._result = result
            listeners._waiters = {}
            # Made first: a collection of garbage in there may let another thread settle the batch.
            alone = [listeners]
            with cython.critical_section(result):
                is_settled = result._forwards is not None or (
                    result.finished if self._until_finished else result.done
                )
                if not is_settled:
                    if result._waiters is None:
                        result._waiters = alone
                        track_again(result)
                    else:
                        result._waiters.append(listeners)
            if is_settled:
                return None
            calls.by_result[result] = listeners
        waiter = calls.loop.create_future()
        listeners._waiters[waiter] = None
        self._listeners = listeners
        self._waiter = waiter
        # As its own `await` would: the task then knows what it waits for.
        return next(iter(waiter))

    cdef int forsake(self) except -1:
        if self._listeners is not None:
            self._listeners.leave(self._waiter)
            self._listeners = None
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
        self.forsake()
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
        self.forsake()
        while self._open_results:
            result = <BatchResult?>self._open_results.pop()
            if result._forwards is not None:
                self._open_results.extend([child for _, child in result._forwards])
            elif not result.finished:
                self._open_results.append(result)
                step = self._listen(result)
                if step is not None:
                    return step
        self.is_over = True
        return None
