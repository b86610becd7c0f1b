from collections import deque
from collections.abc import Callable
from typing import Any

from kprod._core.clock import SystemClock
from kprod._core.memory.chunk import Chunk
from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import BatchBuilder
from kprod._core.send.send_hooks import SendHooks

class PartitionAppender:
    topic: str
    partition: int
    batches: deque[Any]
    builder: BatchBuilder | None
    result: BatchResult | None
    def __init__(self, topic: str, partition: int) -> None: ...
    def open(self, batch: Any) -> bool: ...
    def seal(self) -> None: ...

class TopicRoutes:
    name: str
    queues: list[Any]
    partition_count: int
    sticky: int
    turns: list[int]
    def __init__(self, name: str, queues: list[Any]) -> None: ...

class ReservedChunks:
    chunks: list[Chunk]
    missing_count: int
    missing_large: bool
    def __init__(self) -> None: ...

class BatchOpener:
    hooks: SendHooks
    inbox: deque[Any]
    closed_error: Callable[[], Exception] | None
    sender_sleeps: bool
    wake: Callable[[], object] | None
    direct_path: Any
    def __init__(
        self, hooks: SendHooks, pool: ChunkPool, clock: SystemClock, inbox: deque[Any]
    ) -> None: ...
    def wake_sender(self) -> int: ...
