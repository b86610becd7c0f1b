from typing import Final, final

NONE_FOLLOWS: Final[int]

@final
class BatchEnd:
    next_offset: int
    leader_epoch: int

    def __init__(self, next_offset: int, leader_epoch: int) -> None: ...

def last_batch(records: memoryview) -> BatchEnd | None: ...
