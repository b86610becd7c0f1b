from typing import Any

from kprod._core.append import SendPath
from kprod._core.bulk_columns import Column
from kprod._core.partition_appender import TopicHead
from kprod._core.tally import SendTally

UNENDURED: tuple[type[Exception], ...]

class BulkCall:
    head: TopicHead
    tally: SendTally
    def __init__(self, path: SendPath, topic: str, on_delivery: Any = None) -> None: ...
    def run(self, values: Column, others: list[Column | None]) -> None: ...
