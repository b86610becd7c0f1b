"""The shapes that an application may bring: plain functions and classes fit them."""

from collections.abc import Sequence

from kprod.config import ProducerConfig
from kprod.interfaces import Interceptor, OutgoingRecord, Partitioner, Serializer
from kprod.model import RecordMetadata


def _first(key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
    chosen = available or all_partitions
    return chosen[len(key or b"") % len(chosen)]


class _Counting:
    """An interceptor that counts."""

    def __init__(self) -> None:
        self.sent_count = 0
        self.settled_count = 0

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        self.sent_count += 1
        return record._replace(key=b"replaced")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        assert (metadata is None) != (error is None)
        self.settled_count += 1

    def close(self) -> None:
        self.sent_count = 0


def test_plain_functions_are_serializers_and_partitioners() -> None:
    """Objects for other Python clients work here: there is no base class to inherit from."""
    serializer: Serializer = str.encode
    partitioner: Partitioner = _first
    assert serializer("é") == b"\xc3\xa9"
    assert partitioner(b"ab", range(3), []) == 2
    config = ProducerConfig.parse(
        {"bootstrap_servers": "a:1", "partitioner": _first, "value_serializer": serializer}
    )
    assert config.partitioner_settings().partitioner is _first


def test_a_plain_class_is_an_interceptor() -> None:
    """It may replace the record, and sees the outcome."""
    counting = _Counting()
    interceptor: Interceptor = counting
    record = interceptor.on_send(OutgoingRecord("orders", b"value"))
    assert (record.key, record.topic, record.headers) == (b"replaced", "orders", ())
    interceptor.on_acknowledgement(None, TimeoutError("late"))
    assert (counting.sent_count, counting.settled_count) == (1, 1)
    interceptor.close()
    assert counting.sent_count == 0
