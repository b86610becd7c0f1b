from collections.abc import Iterable
from typing import TypeVar, final

from kprod._core.aio.compiled_coroutine import CompiledCoroutine
from kprod._core.aio.loop_mailbox import LoopCall
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.outcome.record_future import RecordFuture
from kprod.model import RecordMetadata

_T_co = TypeVar("_T_co", covariant=True)

@final
class LoopBatchWaiters(LoopCall):
    def release(self) -> None: ...
    def close_after_fork(self) -> None: ...

class ResultWait(CompiledCoroutine[_T_co]): ...

@final
class DeliveryWait(ResultWait[RecordMetadata]):
    def __init__(self, future: RecordFuture) -> None: ...

@final
class FinishWait(ResultWait[None]):
    def __init__(self, results: Iterable[BatchResult]) -> None: ...
