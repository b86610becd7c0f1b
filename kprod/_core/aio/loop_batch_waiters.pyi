from typing import final

from kprod._core.aio.compiled_coroutine import CompiledCoroutine
from kprod._core.aio.loop_mailbox import LoopCall
from kprod._core.outcome.record_future import RecordFuture
from kprod.model import RecordMetadata

@final
class LoopBatchWaiters(LoopCall): ...

@final
class DeliveryWait(CompiledCoroutine[RecordMetadata]):
    def __init__(self, future: RecordFuture) -> None: ...
