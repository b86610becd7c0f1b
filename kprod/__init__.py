"""kprod: a fast and honest Kafka client for Python.

`Consumer` and `AsyncProducer` are imported when they are first asked for: a `Producer` needs
neither decoders nor asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import kprod.errors as errors  # noqa: PLR0402 - nothing below imports `kprod` itself
from kprod.errors import KprodError, Persistence
from kprod.interfaces import (
    ConsumerInterceptor,
    Deserializer,
    Interceptor,
    OutgoingRecord,
    Partitioner,
    Serializer,
)
from kprod.model import Acks, Codec, OffsetAndTimestamp, RecordMetadata, TopicPartition
from kprod.producer.future import RecordFuture, as_completed, failures_of, wait
from kprod.producer.health import ProducerHealth
from kprod.producer.producer import Producer
from kprod.producer.receipt import SendReceipt
from kprod.producer.termination import close_on_sigterm
from kprod.version import __version__ as __version__  # re-exported

if TYPE_CHECKING:
    from kprod.aio import AsyncProducer
    from kprod.config.consumer_settings import ConsumerSettings
    from kprod.config.producer_settings import ProducerSettings
    from kprod.consumer.consumer import Consumer
    from kprod.record.blocks import ConsumerRecord

__all__ = [
    "Acks",
    "AsyncProducer",
    "Codec",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "Deserializer",
    "Interceptor",
    "KprodError",
    "OffsetAndTimestamp",
    "OutgoingRecord",
    "Partitioner",
    "Persistence",
    "Producer",
    "ProducerHealth",
    "ProducerSettings",
    "RecordFuture",
    "RecordMetadata",
    "SendReceipt",
    "Serializer",
    "TopicPartition",
    "as_completed",
    "close_on_sigterm",
    "errors",
    "failures_of",
    "wait",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    match name:
        case "AsyncProducer":
            module = "kprod.aio"
        case "Consumer":
            module = "kprod.consumer.consumer"
        case "ConsumerRecord":
            module = "kprod.record.blocks"
        case "ConsumerSettings":
            module = "kprod.config.consumer_settings"
        case "ProducerSettings":
            module = "kprod.config.producer_settings"
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
