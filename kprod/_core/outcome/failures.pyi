from collections.abc import Iterable

from kprod._core.outcome.record_future import RecordFuture

def failures_of(
    futures: Iterable[RecordFuture], timeout: float | None = None
) -> list[RecordFuture]: ...
