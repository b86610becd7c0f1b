"""kprod: a fast and honest Kafka producer for Python.

`AsyncProducer` is imported when it is first asked for, since asyncio takes longer to import than
all that a `Producer` needs.
"""

from typing import TYPE_CHECKING, Any

from kprod.producer.future import RecordFuture, as_completed, failures_of, wait
from kprod.producer.producer import Producer
from kprod.producer.receipt import SendReceipt
from kprod.version import __version__ as __version__  # re-exported

if TYPE_CHECKING:
    from kprod.aio import AsyncProducer

__all__ = [
    "AsyncProducer",
    "Producer",
    "RecordFuture",
    "SendReceipt",
    "as_completed",
    "failures_of",
    "wait",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if name != "AsyncProducer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kprod.aio import AsyncProducer  # noqa: PLC0415 - when it is asked for

    globals()[name] = AsyncProducer
    return AsyncProducer


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
