from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, final

from kprod.errors import KprodError
from kprod.model import RecordMetadata

def register(
    *,
    metadata_type: type[RecordMetadata],
    report_callback_error: Callable[[BaseException], None],
    await_future: Callable[[RecordFuture], Generator[Any, None, RecordMetadata]],
    to_concurrent: Callable[[RecordFuture], Future[RecordMetadata]],
) -> None: ...

class BatchListener: ...

class BatchResult:
    topic: str
    partition: int
    done: bool
    finished: bool
    base_offset: int
    log_append_time_ms: int
    error: KprodError | None
    created_ms: int
    def __init__(self, topic: str, partition: int) -> None: ...
    def complete(
        self,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        error: KprodError | None = None,
        record_errors: Mapping[int, KprodError] | None = None,
    ) -> bool: ...
    def wait_finished(self, timeout_s: float) -> bool: ...
    def failed_count(self, record_count: int) -> int: ...
    def forward(self, children: Iterable[tuple[int, BatchResult]]) -> None: ...

@final
class RecordFuture:
    def __init__(self) -> None: ...
    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> RecordMetadata: ...
    def exception(self, timeout: float | None = None) -> KprodError | None: ...
    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None: ...
    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
    def to_concurrent(self) -> Future[RecordMetadata]: ...
