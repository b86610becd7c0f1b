"""kprod: a fast and honest Kafka producer for Python."""

from kprod.aio import AsyncProducer
from kprod.producer.future import RecordFuture, as_completed, failures_of, wait
from kprod.producer.producer import Producer
from kprod.producer.receipt import SendReceipt

__all__ = [
    "AsyncProducer",
    "Producer",
    "RecordFuture",
    "SendReceipt",
    "as_completed",
    "failures_of",
    "wait",
]
