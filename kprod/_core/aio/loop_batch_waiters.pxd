from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.aio.loop_mailbox cimport LoopCall, LoopMailbox
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.aio.compiled_coroutine cimport CompiledCoroutine


cdef class LoopBatchWaiters(LoopCall):
    cdef BatchResult _result
    # Futures of the loop, as keys, so that removing a cancelled one takes O(1).
    cdef dict _waiters
    # Lists of pairs of a done-callback and its context, by `RecordFuture`; None if there are none.
    cdef dict _done_calls
    cdef int leave(self, object waiter) except -1


cdef LoopBatchWaiters waiters_in(LoopMailbox calls, BatchResult result)
cdef int call_in_loop(LoopMailbox calls, RecordFuture future, list done_calls) except -1


cdef class DeliveryWait(CompiledCoroutine):
    cdef RecordFuture _future
    cdef LoopBatchWaiters _waiters
    cdef object _waiter
    cdef object _wait_for(self, BatchResult result)
