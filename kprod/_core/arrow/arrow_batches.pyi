from kprod._core.send.bulk_account import SendTally
from kprod._core.send.partition_appender import TopicHead
from kprod._core.send.send_path import SendPath

class ArrowBatches:
    def __init__(self, path: SendPath, head: TopicHead, tally: SendTally) -> None: ...
