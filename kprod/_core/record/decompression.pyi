from collections.abc import Callable
from typing import TypeAlias, final

_Buffer: TypeAlias = bytes | bytearray | memoryview

@final
class Decompression:
    def __init__(self, bytes_max: int) -> None: ...
    def __call__(self, codec: int, payload: memoryview, magic: int = 2) -> _Buffer: ...

def register_decompressor(
    decompressor: Callable[[int, memoryview, int, int], _Buffer],
) -> None: ...
