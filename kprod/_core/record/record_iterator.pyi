from collections.abc import Iterator
from typing import Any, Self, TypeAlias, final

_Buffer: TypeAlias = bytes | bytearray | memoryview

@final
class BufferHold:
    def __init__(self, buffer: _Buffer) -> None: ...

@final
class RecordIterator(Iterator[Any]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

def register_types(
    record_type: type[tuple[Any, ...]], header_type: type[tuple[Any, ...]]
) -> None: ...
