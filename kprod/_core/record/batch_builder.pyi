import enum
from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

from kprod._core.memory.chunk import Chunk, ChunkPart
from kprod._core.memory.chunk_pool import ChunkChain
from kprod._core.record.compression_buffer import CompressionBuffer

class AppendResult(enum.IntEnum):
    APPENDED = 0
    NEED_CHUNKS = 1
    BATCH_FULL = 2

class BatchBuilder:
    chain: ChunkChain
    limit_bytes: int
    size_bytes: int
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    sealed: bool
    missing_bytes: int
    encoded_bytes: int
    def __init__(self, chain: ChunkChain, limit_bytes: int) -> None: ...
    @property
    def is_full(self) -> bool: ...
    def try_append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None] = (),
    ) -> AppendResult: ...
    def add_chunk(self, chunk: Chunk) -> None: ...
    def seal(self) -> None: ...
    def records(self, buffer: CompressionBuffer) -> memoryview: ...
    def pack(self, packed: Buffer) -> None: ...
    @property
    def is_packed(self) -> bool: ...
    def close(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        attributes: int = 0,
    ) -> list[bytes | bytearray | memoryview | ChunkPart]: ...
    def pieces(self) -> list[bytes | bytearray | memoryview | ChunkPart]: ...
    def rewrite_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int
    ) -> None: ...
