# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Find the failed records among many in one call.

Failures are rare and adjacent futures usually share a batch, so checking a future is usually a
pointer comparison.

Thread-safety: any thread.
Source: `concurrent.futures.wait` for the shape.
"""

from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE

from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.clock cimport Deadline
from kprod._core.prefetch cimport prefetch_line
from kprod._core.outcome.record_future cimport RecordFuture

from kprod.errors import KprodTimeout

cdef enum:
    # Futures that were kept for a while have left the near caches.
    LOOKED_AHEAD = 8

# A result without futures.
cdef BatchResult _NO_RESULT = BatchResult("", -1)


def failures_of(futures, timeout=None) -> list:
    """Wait until all records are settled, and return the futures of those that failed.

    O(1) per future; takes a fifth of the time of calling `exception()` on each.

    Args:
        futures: The futures to wait for; any number.
        timeout: Seconds for the whole call; None waits until every record is settled, which takes
            at most `delivery_timeout_ms`.

    Returns:
        The failed futures in the order given; `exception()` of each returns its error. The list is
        empty if all records were delivered.

    Raises:
        KprodTimeout: The timeout expired before all records were settled; the others are still
            being sent. `wait(futures, 0)` returns the settled ones.
        KprodError: A callback of the same producer called this: its thread would wait for itself.
        TypeError: The timeout is not a number, or an item is not a `RecordFuture`. Items are
            checked one by one, so the call may wait for the items before it first.
        ValueError: The timeout is NaN.

    Thread-safety: any thread.
    """
    cdef list everyone = futures if PyList_CheckExact(futures) else list(futures)
    cdef list found = []
    cdef RecordFuture future
    cdef BatchResult result
    # The previous record's batch, if all its records were delivered.
    cdef BatchResult delivered = _NO_RESULT
    cdef Py_ssize_t index = 0
    cdef Deadline deadline = None if timeout is None else Deadline(timeout)
    while index < PyList_GET_SIZE(everyone):
        if index + LOOKED_AHEAD < PyList_GET_SIZE(everyone):
            prefetch_line(PyList_GET_ITEM(everyone, index + LOOKED_AHEAD))
        future = <RecordFuture?>everyone[index]
        index += 1
        if future._result is delivered:
            continue
        result = future._settled_by()
        if not result.done:
            if everyone is futures:
                # A copy, since other code may change the caller's list during the wait.
                everyone = list(everyone)
            result = _outcome(future, everyone, timeout, deadline)
        if result.error is None and result._record_errors is None:
            delivered = result
        elif future._error(result) is not None:
            found.append(future)
    return found


cdef BatchResult _outcome(
    RecordFuture future, list everyone, object timeout, Deadline deadline
):
    """Wait for a record, and return the result that settles it."""
    if deadline is None:
        return future._outcome(None)
    try:
        return future._outcome(deadline.wait_s())
    except KprodTimeout:
        # A signal handler may have raised it.
        if not deadline.is_over():
            raise
    settled_count = sum([other.done() for other in everyone])
    raise KprodTimeout(
        f"settled within {timeout} s: {settled_count} of {len(everyone)}; the others continue until"
        " delivery_timeout_ms ends them"
    )
