"""The producer and the consumer for asyncio: `AsyncProducer` and `AsyncConsumer`.

Each is imported when it is first asked for: a program that reads needs no producer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kprod.aio.async_consumer import AsyncConsumer
    from kprod.aio.async_producer import AsyncProducer

__all__ = ["AsyncConsumer", "AsyncProducer"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    homes = {
        "AsyncConsumer": "kprod.aio.async_consumer",
        "AsyncProducer": "kprod.aio.async_producer",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(homes[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
