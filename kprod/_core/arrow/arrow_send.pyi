from kprod._core.arrow.arrow_rows import ArrowRows
from kprod._core.send.bulk_send import BulkCall
from kprod._core.send.send_path import SendPath

UNENDURED: tuple[type[Exception], ...]

class ArrowCall(BulkCall):
    def __init__(self, path: SendPath, topic: str, rows: ArrowRows) -> None: ...
    def run_table(self) -> None: ...
