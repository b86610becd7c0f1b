from typing import Any

from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.bulk_columns import Column
from kprod._core.send.partition_appender import TopicRoutes
from kprod._core.send.send_path import SendPath

UNENDURED: tuple[type[Exception], ...]

class BulkCall:
    routes: TopicRoutes
    account: BulkAccount
    def __init__(self, path: SendPath, topic: str, on_delivery: Any = None) -> None: ...
    def run(self, values: Column, others: list[Column | None]) -> None: ...
