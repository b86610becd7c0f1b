from collections.abc import Mapping

from kprod._core.append import SendPath
from kprod._core.arrow_source import ArrowSource
from kprod._core.bulk import BulkCall

class ArrowCall(BulkCall):
    def __init__(
        self, path: SendPath, topic: str, source: ArrowSource, names: Mapping[str, str | None]
    ) -> None: ...
    def run_table(self) -> None: ...
