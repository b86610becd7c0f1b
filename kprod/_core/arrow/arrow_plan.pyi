from kprod._core.arrow.arrow_rows import ArrowRows
from kprod._core.send.partition_appender import TopicRoutes
from kprod._core.send.send_path import SendPath

class BlockPlan:
    def __init__(self, path: SendPath, topic_routes: TopicRoutes, rows: ArrowRows) -> None: ...
