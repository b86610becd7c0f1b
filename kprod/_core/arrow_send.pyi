from kprod._core.append import SendPath
from kprod._core.arrow_rows import ArrowRows
from kprod._core.bulk import BulkCall

UNENDURED: tuple[type[Exception], ...]

class ArrowCall(BulkCall):
    def __init__(self, path: SendPath, topic: str, rows: ArrowRows) -> None: ...
    def run_table(self) -> None: ...
