# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Callbacks of single records: which loop or thread calls them, and how they are removed.

A callback that is added in a running event loop is called by that loop, as for an asyncio future;
`asyncio.wait` relies on that. Any other is called by the thread that settles the record.

Thread-safety: any thread; a loop's callbacks are added and removed in its own thread.
Source: `asyncio.Future.add_done_callback`, `concurrent.futures.Future.add_done_callback`.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE

from kprod._core.outcome.batch_result cimport BatchResult, part_with
from kprod._core.aio.loop_batch_waiters cimport LoopBatchWaiters, call_in_loop
from kprod._core.aio.loop_mailbox cimport LoopMailbox, calls_of_running_loop, running_loop
from kprod._core.outcome.record_future cimport RecordFuture, call_back

from contextvars import copy_context


def add_done_call(RecordFuture future not None, callback, context=None) -> None:
    """Call `callback(future)` once the record is settled; see `RecordFuture.add_done_callback`.

    Args:
        future: Future of any producer.
        callback: Takes the future.
        context: Context to run it in; None, in a loop, for a copy of the current one.
    """
    if running_loop() is None:
        call_when_done(future, callback, context)
        return
    if context is None:
        context = copy_context()
    call_in_loop(calls_of_running_loop(), future, [(callback, context)])


def call_when_done(RecordFuture future not None, callback, context=None) -> None:
    """Call `callback(future)` on the thread that settles the record, or at once if it is settled.

    Args:
        future: Future of any producer.
        callback: Takes the future.
        context: Context to run it in, or None.
    """
    cdef tuple entry = (future, callback, context)
    cdef BatchResult result
    while True:
        result = future._settled_by()
        with cython.critical_section(result):
            if not result.done and result._parts is None:
                result._callbacks.append(entry)
                result._callbacks_unordered = True
                return
        if result._parts is None:
            call_back(entry)
            return


def remove_done_call(RecordFuture future not None, callback) -> int:
    """Remove a callback: in a running loop one added in that loop, else one added in none.

    Args:
        future: Future of any producer.
        callback: A callback equal to the added one.

    Returns:
        Number of times it had been added; 0 once it has been called.
    """
    if running_loop() is None:
        return _remove(future, callback)
    return _remove_in_loop(calls_of_running_loop(), future, callback)


cdef int _remove(RecordFuture future, object callback) except -1:
    cdef BatchResult result
    cdef int removed_count = 0
    cdef Py_ssize_t place
    while True:
        result = future._settled_by()
        entry = _entry_of(result, future, callback)
        if entry is None:
            return removed_count
        with cython.critical_section(result):
            # If it was settled or split meanwhile, there is no list; the next round finds out.
            if result._callbacks is not None:
                for place in range(PyList_GET_SIZE(result._callbacks)):
                    if result._callbacks[place] is entry:
                        del result._callbacks[place]
                        removed_count += 1
                        break


cdef object _entry_of(BatchResult result, RecordFuture future, object callback):
    """Return the first entry of this future and callback not called yet; None if there is none."""
    # A copy: comparing callbacks may run Python code, and so other threads.
    cdef list entries = list(result._callbacks or ()) if result._callbacks_unordered else []
    for entry in entries:
        if isinstance(entry, tuple) and entry[0] is future and entry[1] == callback:
            return entry
    return None


cdef int _remove_in_loop(LoopMailbox calls, RecordFuture future, object callback) except -1:
    """Remove a callback, also from batches split since, whose waiters may not be woken yet."""
    cdef BatchResult result = future._result
    cdef int removed_count = 0
    while True:
        removed_count += _remove_from(calls.by_result.get(result), future, callback)
        if result._parts is None:
            return removed_count
        result = part_with(result._parts, future._index)


cdef int _remove_from(LoopBatchWaiters waiters, RecordFuture future, object callback) except -1:
    cdef dict done_calls = None if waiters is None else waiters._done_calls
    cdef list known = None if done_calls is None else done_calls.get(future)
    cdef list kept
    if known is None:
        return 0
    kept = [done_call for done_call in known if done_call[0] != callback]
    if kept:
        done_calls[future] = kept
    else:
        done_calls.pop(future, None)
    return <int>(PyList_GET_SIZE(known) - PyList_GET_SIZE(kept))
