from kprod._core.arrow.arrow_rows import ArrowRows
from kprod._core.send.partition_appender import TopicHead
from kprod._core.send.send_path import SendPath

class BlockPlan:
    def __init__(self, path: SendPath, head: TopicHead, rows: ArrowRows) -> None: ...
