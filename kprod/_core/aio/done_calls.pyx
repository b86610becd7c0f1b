# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Callbacks of single records: where they are called, and how they are taken back.

A callback that is added in a running event loop is called by that loop, as one of an asyncio future
is; `asyncio.wait` relies on that. Any other is called by the thread that settles the record.

Thread-safety: any thread; a loop's callbacks are added and taken back in its own thread.
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
        future: Of any producer.
        callback: Takes the future.
        context: To run it in; None, in a loop, is a copy of the present one.
    """
    if running_loop() is None:
        call_when_done(future, callback, context)
        return
    if context is None:
        context = copy_context()
    call_in_loop(calls_of_running_loop(), future, [(callback, context)])


def call_when_done(RecordFuture future not None, callback, context=None) -> None:
    """As `add_done_call`, always on the thread that settles the record; here if it is settled.

    Args:
        future: Of any producer.
        callback: Takes the future.
        context: Where it runs, or None.
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
    """Take back a callback that was added here: in this loop, or outside of every loop.

    Args:
        future: Of any producer.
        callback: Equal to what was added.

    Returns:
        How often it had been added; 0 once it is called.
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
            # Settled or split meanwhile, there is no list; then its next look tells.
            if result._callbacks is not None:
                for place in range(PyList_GET_SIZE(result._callbacks)):
                    if result._callbacks[place] is entry:
                        del result._callbacks[place]
                        removed_count += 1
                        break


cdef object _entry_of(BatchResult result, RecordFuture future, object callback):
    """The first entry of this future and callback that still waits; None if there is none."""
    # A copy: comparing callbacks may run Python code, and so other threads.
    cdef list entries = list(result._callbacks or ()) if result._callbacks_unordered else []
    for entry in entries:
        if isinstance(entry, tuple) and entry[0] is future and entry[1] == callback:
            return entry
    return None


cdef int _remove_in_loop(LoopMailbox calls, RecordFuture future, object callback) except -1:
    """Also from batches that were split since: their listeners may not have been told yet."""
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
