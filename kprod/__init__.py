"""kprod: a fast and honest Kafka producer for Python."""

from kprod.producer.future import RecordFuture, as_completed, wait
from kprod.producer.producer import Producer

__all__ = ["Producer", "RecordFuture", "as_completed", "wait"]
