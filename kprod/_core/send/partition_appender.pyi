from collections import deque
from collections.abc import Callable
from typing import Any

from kprod._core.clock import SystemClock
from kprod._core.memory.chunk import Chunk
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.send_hooks import SendHooks

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

class BatchOpener:
    hooks: SendHooks
    inbox: deque[Any]
    refusal: Callable[[], Exception] | None
    sender_sleeps: bool
    wake: Callable[[], object] | None
    lane: Any
    def __init__(
        self, hooks: SendHooks, pool: ChunkPool, clock: SystemClock, inbox: deque[Any]
    ) -> None: ...
    def wake_sender(self) -> int: ...
