# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Which of many records failed, asked at once.

Nearly always none did. Neighbours mostly share a batch, and then one answer: to such a future it
costs a look at which batch it belongs to.

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
    # Futures that were kept for a while are in no near cache.
    LOOKED_AHEAD = 8

# No future belongs to it.
cdef BatchResult _NO_RESULT = BatchResult("", -1)


def failures_of(futures, timeout=None) -> list:
    """Wait until all records are settled, and return the futures of those that failed.

    O(1) a future, a fifth of what asking each for its `exception()` takes.

    Args:
        futures: Any number.
        timeout: Seconds in all; None waits as long as it takes, which `delivery_timeout_ms` bounds.

    Returns:
        In the order given; `exception()` of each has the error. Empty when all were delivered.

    Raises:
        KprodTimeout: The time was over before all were settled; the records go on. `wait(futures,
            0)` says which are.
        KprodError: Asked inside a callback of the same producer, whose thread would wait for
            itself.
        TypeError: Something else than a `RecordFuture`, which may be found after a wait for those
            before it; or a timeout that is no number.
        ValueError: The timeout is NaN.

    Thread-safety: any thread.
    """
    cdef list everyone = futures if PyList_CheckExact(futures) else list(futures)
    cdef list found = []
    cdef RecordFuture future
    cdef BatchResult result
    # The batch of the record before, if all its records were delivered.
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
                # Nobody may change what is asked about while others run.
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
    """The result that settles a record, which is waited for."""
    if deadline is None:
        return future._outcome(None)
    try:
        return future._outcome(deadline.wait_s())
    except KprodTimeout:
        # It may also be what a signal handler raised.
        if not deadline.is_over():
            raise
    settled_count = sum([other.done() for other in everyone])
    raise KprodTimeout(
        f"settled within {timeout} s: {settled_count} of {len(everyone)}; the others go on until"
        " delivery_timeout_ms ends them"
    )
