from collections.abc import Callable
from contextvars import Context

from kprod._core.outcome.record_future import RecordFuture

def add_done_call(
    future: RecordFuture,
    callback: Callable[[RecordFuture], object],
    context: Context | None = None,
) -> None: ...
def call_when_done(
    future: RecordFuture,
    callback: Callable[[RecordFuture], object],
    context: Context | None = None,
) -> None: ...
def remove_done_call(future: RecordFuture, callback: Callable[[RecordFuture], object]) -> int: ...
