from collections.abc import Sequence

from kprod._core.memory.chunk import ChunkPart

def produce_pieces(
    opening: bytes,
    correlation_id: int,
    topics: Sequence[
        tuple[
            bytes, Sequence[tuple[int, Sequence[bytes | bytearray | memoryview | ChunkPart], int]]
        ]
    ],
    flexible: bool,
) -> list[bytes | bytearray | memoryview | ChunkPart]: ...
