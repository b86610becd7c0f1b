from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typing_extensions import Buffer

from kprod._core.clock import SystemClock
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.outcome.record_future import RecordFuture
from kprod._core.send.partition_appender import BatchOpener, TopicRoutes
from kprod._core.send.send_hooks import SendHooks
from kprod.errors import KprodError
from kprod.model import RecordMetadata

class SendPath(BatchOpener):
    topics: dict[str, TopicRoutes]
    def __init__(
        self,
        hooks: SendHooks,
        pool: ChunkPool,
        clock: SystemClock,
        inbox: deque[Any],
        topics: dict[str, TopicRoutes],
        rules: Any,
    ) -> None: ...

class SendMethod:
    _kprod: Any
    def __init__(self, path: SendPath, engine: object) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[RecordMetadata | None, KprodError | None], object] | None = None,
    ) -> RecordFuture: ...
