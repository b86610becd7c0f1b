from typing import Final

from kprod._core.memory.chunk import ChunkPart

PIECES_MAX: Final = 1024

def write_pieces(
    descriptor: int, pieces: list[bytes | bytearray | memoryview | ChunkPart]
) -> int: ...
def read_into(
    descriptor: int, buffer: bytearray, bytes_max: int = ..., start: int = 0
) -> int | None: ...
def peek_into(descriptor: int, buffer: bytearray) -> int | None: ...
