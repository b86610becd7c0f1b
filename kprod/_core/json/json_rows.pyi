from collections.abc import Callable
from datetime import tzinfo
from typing import Any

class JsonText:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def json_objects(
    table: Any, find_zone: Callable[[str], int | tzinfo]
) -> tuple[JsonText, JsonText]: ...
