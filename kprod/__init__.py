"""kprod: a fast and honest Kafka client for Python.

The faces, `Producer`, `Consumer` and their asynchronous forms, and what belongs to them are
imported when they are first asked for: a program that reads needs no producer, one that sends no
decoders, and neither needs asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import kprod.errors as errors  # noqa: PLR0402 - nothing below imports `kprod` itself
from kprod.errors import KprodError, Persistence
from kprod.interfaces import (
    ConsumerInterceptor,
    Deserializer,
    GroupMember,
    Interceptor,
    OutgoingRecord,
    PartitionAssignor,
    Partitioner,
    RebalanceListener,
    Serializer,
)
from kprod.model import (
    Acks,
    Codec,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)
from kprod.version import __version__ as __version__  # re-exported

if TYPE_CHECKING:
    from kprod.aio.async_consumer import AsyncConsumer
    from kprod.aio.async_producer import AsyncProducer
    from kprod.config.consumer_settings import ConsumerSettings
    from kprod.config.producer_settings import ProducerSettings
    from kprod.consumer.consumer import Consumer
    from kprod.producer.future import RecordFuture, as_completed, failures_of, wait
    from kprod.producer.health import ProducerHealth
    from kprod.producer.producer import Producer
    from kprod.producer.receipt import SendReceipt
    from kprod.producer.termination import close_on_sigterm
    from kprod.record.blocks import ConsumerRecord

__all__ = [
    "Acks",
    "AsyncConsumer",
    "AsyncProducer",
    "Codec",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "Deserializer",
    "GroupMember",
    "GroupMetadata",
    "Interceptor",
    "KprodError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OutgoingRecord",
    "PartitionAssignor",
    "Partitioner",
    "Persistence",
    "Producer",
    "ProducerHealth",
    "ProducerSettings",
    "RebalanceListener",
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
    homes = {
        "AsyncConsumer": "kprod.aio.async_consumer",
        "AsyncProducer": "kprod.aio.async_producer",
        "Consumer": "kprod.consumer.consumer",
        "ConsumerRecord": "kprod.record.blocks",
        "ConsumerSettings": "kprod.config.consumer_settings",
        "Producer": "kprod.producer.producer",
        "ProducerHealth": "kprod.producer.health",
        "ProducerSettings": "kprod.config.producer_settings",
        "RecordFuture": "kprod.producer.future",
        "SendReceipt": "kprod.producer.receipt",
        "as_completed": "kprod.producer.future",
        "close_on_sigterm": "kprod.producer.termination",
        "failures_of": "kprod.producer.future",
        "wait": "kprod.producer.future",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(homes[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
