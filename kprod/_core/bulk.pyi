from typing import Any, final

from kprod._core.append import SendPath, TopicHead
from kprod._core.tally import SendTally

UNENDURED: tuple[type[Exception], ...]

@final
class Column:
    role: str
    is_at_hand: bool
    def __init__(self, source: Any, role: str) -> None: ...

class BulkCall:
    head: TopicHead
    tally: SendTally
    def __init__(self, path: SendPath, topic: str, on_delivery: Any = None) -> None: ...
    def run(self, values: Column, others: list[Column | None]) -> None: ...
