from typing import Any, TypeAlias

from kprod._core.wire import StructPlan

_BytesLike: TypeAlias = bytes | bytearray | memoryview

class Reader: ...

def decode(plan: StructPlan, buffer: _BytesLike) -> dict[str, Any]: ...
def decode_prefix(plan: StructPlan, buffer: _BytesLike) -> tuple[dict[str, Any], int]: ...
