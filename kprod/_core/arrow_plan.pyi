from kprod._core.append import SendPath
from kprod._core.arrow_rows import ArrowRows
from kprod._core.partition_appender import TopicHead

class BlockPlan:
    def __init__(self, path: SendPath, head: TopicHead, rows: ArrowRows) -> None: ...
