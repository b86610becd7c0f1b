from typing import final

from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.offset_map import OffsetMap

@final
class KeptRecords:
    record_count: int
    invalid_count: int
    max_timestamp_ms: int
    has_tombstone: bool
    def __init__(
        self, batch: RecordBatch, offsets: OffsetMap | None, drops_tombstones: bool
    ) -> None: ...
    def copied(self) -> bytes: ...
    def stamped(self, base_timestamp_ms: int) -> bytes: ...
