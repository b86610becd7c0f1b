from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.partition_appender import TopicRoutes
from kprod._core.send.send_path import SendPath

class ArrowBatches:
    def __init__(self, path: SendPath, topic_routes: TopicRoutes, account: BulkAccount) -> None: ...
