"""Waiting for many futures, and conversions to asyncio and `concurrent.futures`.

The future itself, awaiting it, and `failures_of` are compiled
(`kprod._core.outcome.record_future`); the functions that need a lock are here and are registered
there.

Thread-safety: any thread.
Source: `concurrent.futures.wait` and `as_completed` for the shapes.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kprod._core.aio import done_calls
from kprod._core.aio.done_calls import call_when_done
from kprod._core.aio.loop_batch_waiters import DeliveryWait
from kprod._core.clock import Deadline
from kprod._core.outcome import batch_result, record_future
from kprod._core.outcome.failures import failures_of
from kprod._core.outcome.record_future import RecordFuture
from kprod._core.outcome.self_wait import is_sender
from kprod.errors import KprodTimeout
from kprod.guarded_log import guarded_logger
from kprod.model import RecordMetadata
from kprod.threads import make_lock
from kprod.wording import counted

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["DeliveryWait", "RecordFuture", "Waited", "as_completed", "failures_of", "wait"]

_logger = guarded_logger(__name__)


class Waited(NamedTuple):
    """The result of `wait`: futures that are done, and futures that are not."""

    done: set[RecordFuture]
    not_done: set[RecordFuture]


def wait(futures: Iterable[RecordFuture], timeout: float | None = None) -> Waited:
    """Wait until all futures are done.

    Args:
        futures: Any number of futures.
        timeout: Seconds in all; None waits without limit.

    Returns:
        Two sets; the second is empty unless the timeout expired.

    Raises:
        KprodError: Called in a callback of the same producer, whose thread would wait for itself.
        ValueError: The timeout is NaN.
    """
    everyone = list(futures)
    deadline = Deadline(timeout)
    for future in everyone:
        try:
            future.exception(deadline.left_s())
        except KprodTimeout:
            break
    done = {future for future in everyone if future.done()}
    return Waited(done, {future for future in everyone if future not in done})


def as_completed(
    futures: Iterable[RecordFuture], timeout: float | None = None
) -> Iterator[RecordFuture]:
    """Yield futures as they are done.

    Args:
        futures: Any number of futures.
        timeout: Seconds in all; None waits without limit.

    Yields:
        Each future once.

    Raises:
        KprodTimeout: The timeout expired before all were done.
        KprodError: Called in a callback of the same producer, whose thread would wait for itself.
        ValueError: The timeout is NaN.
    """
    finished = _Finished()
    everyone = list(futures)
    deadline = Deadline(timeout)
    for future in everyone:
        call_when_done(future, finished.put)  # an event loop of this thread may be blocked
    if is_sender():
        for future in everyone:
            future.exception(deadline.left_s())
    for yielded in range(len(everyone)):
        settled = finished.get(deadline)
        if settled is None:
            raise KprodTimeout(
                f"only {yielded} of {counted(len(everyone), 'record')} settled within {timeout} s"
            )
        yield settled


class _Finished:
    """The futures that are done, in order; one thread waits for them."""

    __slots__ = ("_futures", "_wake")

    def __init__(self) -> None:
        self._futures: deque[RecordFuture] = deque()
        self._wake = make_lock()
        self._wake.acquire()

    def put(self, future: RecordFuture) -> None:
        """Add a future; any thread."""
        self._futures.append(future)
        with contextlib.suppress(RuntimeError):  # nobody holds it: the waiter checks again anyway
            self._wake.release()

    def get(self, deadline: Deadline) -> RecordFuture | None:
        """Wait for the next future that is done; None if the deadline passed."""
        while not self._futures:
            if not self._wake.acquire(timeout=deadline.wait_s()):
                return None
        return self._futures.popleft()


def _to_concurrent(record: RecordFuture) -> "Future[RecordMetadata]":
    from kprod.producer.concurrent_view import ConcurrentView  # noqa: PLC0415 - few ask for one

    return ConcurrentView(record)


def _report_callback_error(error: BaseException) -> None:
    _logger.error("A delivery callback raised; the other callbacks run", exc_info=error)


def _describe(record: RecordFuture, topic: str, partition: int) -> str:
    """Return the `repr`: topic and partition, and the offset, the error, or "pending"."""
    if not record.done():
        state = "pending"
    elif (error := record.exception(0)) is not None:
        state = f"failed: {error!r}"
    else:
        offset = record.result(0).offset
        state = f"delivered at offset {offset}" if offset >= 0 else "delivered, offset unknown"
    return f"<RecordFuture {topic}-{partition}: {state}>"


batch_result.register(report_callback_error=_report_callback_error)
record_future.register(
    metadata_type=RecordMetadata,
    await_future=DeliveryWait,
    to_concurrent=_to_concurrent,
    done_calls=done_calls,
    describe=_describe,
)
