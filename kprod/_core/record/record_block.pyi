from collections.abc import Iterable
from typing import TypeAlias, final

from kprod._core.record.consumer_record import ConsumerRecord, PartitionStamp

_Buffer: TypeAlias = bytes | bytearray | memoryview

@final
class RecordBlock:
    def __init__(
        self,
        data: _Buffer,
        stamp: PartitionStamp,
        from_offset: int,
        *,
        aborted: Iterable[tuple[int, int]] = (),
        read_committed: bool = False,
        check_crcs: bool = True,
        max_decompressed: int = 67_108_864,
        as_views: bool = False,
    ) -> None: ...
    @property
    def stamp(self) -> PartitionStamp: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def decompressed_size(self) -> int: ...
    @property
    def exhausted(self) -> bool: ...
    def is_exhausted(self) -> bool: ...
    def take(self, count: int) -> list[ConsumerRecord]: ...

def open_record_block(
    data: _Buffer, stamp: PartitionStamp, from_offset: int, check_crcs: bool, as_views: bool
) -> RecordBlock: ...
