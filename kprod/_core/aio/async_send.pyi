from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, final

from typing_extensions import Buffer

from kprod._core.aio.compiled_coroutine import CompiledCoroutine
from kprod._core.aio.loop_mailbox import LoopSignal
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod._core.outcome.record_future import RecordFuture
from kprod._core.send.partition_appender import ReservedChunks
from kprod._core.send.send_path import SendPath
from kprod.errors import ClosedError, KprodError
from kprod.model import RecordMetadata

def not_open() -> ClosedError: ...

class AsyncSendPath:
    send_path: SendPath | None
    def wait_and_send(self, sending: Sending) -> Coroutine[Any, Any, RecordFuture]: ...

class AsyncSendMethod:
    _kprod: Any
    def __init__(self, path: AsyncSendPath) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[RecordMetadata | None, KprodError | None], object] | None = None,
    ) -> Coroutine[Any, Any, RecordFuture]: ...

@final
class Sending(CompiledCoroutine[RecordFuture]):
    topic: str
    partition: int | None
    def attempt(self, reserved: ReservedChunks) -> RecordFuture | None: ...
    @property
    def knows_topic(self) -> bool: ...
    @property
    def knows_partition(self) -> bool: ...

class LoopMemoryWaiter(MemoryWaiter):
    pool: ChunkPool
    signal: LoopSignal
    def __init__(self, chunk_count: int, large: bool, chunk_bytes: int) -> None: ...
