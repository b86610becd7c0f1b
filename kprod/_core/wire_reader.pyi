from typing import Any, TypeAlias

from kprod._core.wire import StructPlan
from kprod._core.wire_bounds import Bounds

_BytesLike: TypeAlias = bytes | bytearray | memoryview

def decode(
    plan: StructPlan, buffer: _BytesLike, bounds: Bounds | None = None
) -> dict[str, Any]: ...
def decode_prefix(
    plan: StructPlan, buffer: _BytesLike, bounds: Bounds | None = None
) -> tuple[dict[str, Any], int]: ...
