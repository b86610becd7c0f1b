from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from typing_extensions import Buffer

from kprod._core.batch import BatchBuilder
from kprod._core.batch_result import BatchResult
from kprod._core.chunk import Chunk
from kprod._core.chunks import ChunkPool
from kprod._core.clock import SystemClock
from kprod._core.record_future import RecordFuture
from kprod._core.send_hooks import SendHooks
from kprod.errors import KprodError
from kprod.model import RecordMetadata

class PartitionHead:
    topic: str
    partition: int
    batches: deque[Any]
    builder: BatchBuilder | None
    result: BatchResult | None
    def __init__(self, topic: str, partition: int) -> None: ...
    def open(self, batch: Any) -> bool: ...
    def seal(self) -> None: ...

class TopicHead:
    name: str
    queues: list[Any]
    partition_count: int
    sticky: int
    turns: list[int]
    def __init__(self, name: str, queues: list[Any]) -> None: ...

class ChunkHand:
    chunks: list[Chunk]
    missing_count: int
    missing_large: bool
    def __init__(self) -> None: ...

class SendPath(SendHooks):
    topics: dict[str, TopicHead]
    inbox: deque[Any]
    refusal: Callable[[], Exception] | None
    sender_sleeps: bool
    wake: Callable[[], object] | None
    lane: Any
    def __init__(
        self,
        pool: ChunkPool,
        clock: SystemClock,
        inbox: deque[Any],
        topics: dict[str, TopicHead],
        rules: Any,
    ) -> None: ...
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
    def wake_sender(self) -> int: ...
