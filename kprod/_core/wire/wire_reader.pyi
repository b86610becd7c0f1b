from typing import Any, TypeAlias

from kprod._core.wire.wire_bounds import Bounds
from kprod._core.wire.wire_plan import StructPlan

_BytesLike: TypeAlias = bytes | bytearray | memoryview

def decode(
    plan: StructPlan, buffer: _BytesLike, bounds: Bounds | None = None
) -> dict[str, Any]: ...
def decode_prefix(
    plan: StructPlan, buffer: _BytesLike, bounds: Bounds | None = None
) -> tuple[dict[str, Any], int]: ...
