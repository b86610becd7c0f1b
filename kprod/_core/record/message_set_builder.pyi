from collections.abc import Callable, Iterable
from typing import TypeAlias

from typing_extensions import Buffer

# Offset, timestamp in ms, key, value; further items are ignored.
_LegacyRow: TypeAlias = tuple[int, int, bytes | None, bytes | None, *tuple[object, ...]]
# Takes codec number, payload, magic.
_Compress: TypeAlias = Callable[[int, bytes, int], Buffer]

def encode_message_set(
    rows: Iterable[_LegacyRow],
    *,
    magic: int,
    codec: int = 0,
    compress: _Compress | None = None,
    log_append_time_ms: int | None = None,
) -> bytes: ...
