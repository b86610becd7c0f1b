from kprod._core.append import SendPath
from kprod._core.partition_appender import TopicHead
from kprod._core.tally import SendTally

class ArrowBatches:
    def __init__(self, path: SendPath, head: TopicHead, tally: SendTally) -> None: ...
