"""A record's outcome as a `concurrent.futures.Future`: what `RecordFuture.to_concurrent` returns.

It is a separate module since importing `concurrent.futures` takes time that most programs need not
spend.

Thread-safety: any thread.
"""

import concurrent.futures
import contextlib

from kprod._core.aio.done_calls import call_when_done
from kprod._core.clock import bounded_s
from kprod._core.outcome.record_future import RecordFuture
from kprod._core.outcome.self_wait import is_sender
from kprod.errors import without_frames
from kprod.model import RecordMetadata

__all__ = ["ConcurrentView"]


class ConcurrentView(concurrent.futures.Future[RecordMetadata]):
    """The future of one record, for code that uses `concurrent.futures`.

    A callback of the record settles it. The thread that runs callbacks cannot wait for it, as it
    would wait for itself; there the record itself is waited for, which raises an error in that
    case.
    """

    def __init__(self, record: RecordFuture) -> None:
        super().__init__()
        self._record = record
        self.set_running_or_notify_cancel()
        # the waiting thread may block an event loop of its own
        call_when_done(record, self._settle)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's result."""
        self._wait_as_sender(timeout)
        return super().result(_bounded(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the record's result."""
        self._wait_as_sender(timeout)
        return super().exception(_bounded(timeout))

    def _wait_as_sender(self, timeout: float | None) -> None:
        if is_sender() and not self.done():
            self._record.exception(timeout)
            self._settle(self._record)  # its callback may run only after this one

    def _settle(self, record: RecordFuture) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # settled before
            try:
                self.set_result(record.result(0))
            except Exception as error:  # noqa: BLE001 - any exception ends the wait
                self.set_exception(without_frames(error))


def _bounded(timeout: float | None) -> float | None:
    return None if timeout is None else bounded_s(timeout)
