from kprod._core.append import SendPath, TopicHead
from kprod._core.arrow_rows import ArrowRows

class BlockPlan:
    def __init__(self, path: SendPath, head: TopicHead, rows: ArrowRows) -> None: ...
