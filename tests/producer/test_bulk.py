"""`send_many`: what it takes and rejects, and what its receipt says, on a bench without network."""

import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kprod.errors import (
    BufferTimeout,
    ClosedError,
    DeliveryTimeout,
    KprodError,
    RecordsFailed,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from kprod.model import RecordMetadata
from tests.producer.bench import TOPIC, Bench


def values_of(bench: Bench, partition: int) -> list[bytes]:
    """Return the values of the partition's log in order; a null value is None."""
    return bench.partitions[partition].log


def test_all_records_arrive_in_order() -> None:
    """A list of values goes to one partition after the other, in its order."""
    bench = Bench()
    values = [b"%d" % index for index in range(1000)]
    receipt = bench.producer.send_many(TOPIC, values, partitions=itertools.repeat(1))
    bench.run()
    assert values_of(bench, 1) == values
    assert receipt.done()
    assert receipt.result(0)[1].count == 1000
    assert receipt.result(0)[1].ranges == ((0, 999),)


def test_keys_decide_as_in_send() -> None:
    """A key takes its record where `send` would take it."""
    bench = Bench()
    keys = [b"key %d" % (index % 50) for index in range(500)]
    bench.producer.send_many(TOPIC, keys, keys=keys)
    bench.run()
    sent = [values_of(bench, partition) for partition in range(3)]
    other = Bench()
    for key in keys:
        other.producer.send(TOPIC, key, key)
    other.run()
    assert sent == [values_of(other, partition) for partition in range(3)]
    assert all(sent)


def test_every_column_goes_with_its_record() -> None:
    """Keys, headers, partitions and timestamps of any kind of iterable, one for each record."""
    bench = Bench()
    seen: list[RecordMetadata | None] = []
    receipt = bench.producer.send_many(
        TOPIC,
        iter([b"a", None, bytearray(b"c")]),
        keys=(b"k", None, memoryview(b"m")),
        headers=[None, [("h", b"1")], {"g": None}],
        partitions=iter([0, 1, 0]),
        timestamps_ms=[1, 2, None],
        on_delivery=lambda metadata, _: seen.append(metadata),
    )
    bench.run()
    assert receipt.result(0) == {0: (2, ((0, 1),)), 1: (1, ((0, 0),))}
    assert [(m.partition, m.offset, m.serialized_key_size) for m in seen if m] == [
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, -1),
    ]
    stamps = sorted(m.timestamp_ms for m in seen if m)
    assert stamps[:2] == [1, 2]
    assert stamps[2] > 1_600_000_000_000


def test_a_rejected_record_is_named_and_the_others_are_sent() -> None:
    """Each row has its own error at its own index; the rest arrives."""
    bench = Bench(max_request_size=2000, batch_size=1000)
    values: list[Any] = [b"0", "text", b"x" * 3000, b"3", 4, b"5", b"6", b"7"]
    partitions: list[Any] = [0, 0, 0, 99, 0, -1, "no", 0]
    receipt = bench.producer.send_many(TOPIC, values, partitions=partitions, timestamps_ms=[1] * 8)
    assert not receipt.done()
    bench.run()
    assert [failure.index for failure in receipt.failures()] == [1, 2, 3, 4, 5, 6]
    kinds = [type(failure.error) for failure in receipt.failures()]
    assert kinds == [
        TypeError,
        RecordTooLarge,
        UnknownPartition,
        TypeError,
        ValueError,
        TypeError,
    ]
    assert values_of(bench, 0) == [b"0", b"7"]
    with pytest.raises(RecordsFailed, match=r"6 of 8 records.*index 1: TypeError: value") as caught:
        receipt.result(0)
    assert caught.value.failed_count == 6
    assert caught.value.persistence is not None
    assert receipt.delivered() == {0: (2, ((0, 1),))}


def test_a_missing_partition_is_asked_for_once() -> None:
    """Rows for a partition that is not there do not each ask the cluster."""
    bench = Bench()
    asked: list[int] = []
    opener = bench.producer._kprod.support.await_partition

    def count(routes: Any, partition: int, timeout_ms: int) -> None:
        asked.append(partition)
        opener(routes, partition, timeout_ms)

    bench.producer._kprod.support.await_partition = count  # type: ignore[method-assign]
    receipt = bench.producer.send_many(TOPIC, [b""] * 4, partitions=[7, 8, 7, 5])
    assert asked == [7, 5]
    assert receipt.failed_count == 4
    assert receipt.done()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"values": b"bytes"}, TypeError, "values must be an iterable with one item for each"),
        ({"values": 5}, TypeError, "not iterable"),
        ({"values": [b"a"], "keys": b"k"}, TypeError, "keys must be .* itertools.repeat"),
        ({"values": [b"a"], "headers": {"h": b""}}, TypeError, "headers must be"),
        ({"values": [b"a"], "keys": [b"k", b"l"]}, ValueError, "values 1, keys 2"),
        ({"values": [b"a"], "on_delivery": 5}, TypeError, "on_delivery must be callable"),
        ({"values": [b"a"], "topic": 5}, TypeError, "topic must be str"),
    ],
)
def test_what_cannot_be_meant_is_rejected_before_anything_is_sent(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    """One item where many are meant, and columns of different lengths."""
    bench = Bench()
    with pytest.raises(error, match=text):
        bench.producer.send_many(**{"topic": TOPIC, **arguments})
    bench.run()
    assert not any(values_of(bench, partition) for partition in range(3))


def test_a_column_that_ends_early_ends_the_call() -> None:
    """Records accepted until then are sent, and the error has their receipt."""
    bench = Bench()
    with pytest.raises(ValueError, match="keys ended after 2 items") as caught:
        bench.producer.send_many(TOPIC, iter([b"a", b"b", b"c"]), keys=iter([b"k", b"k"]))
    bench.run()
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert receipt.record_count == 2
    assert sum(part.count for part in receipt.result(0).values()) == 2


def test_an_iterables_own_exception_comes_through() -> None:
    """With the receipt of the records accepted before it."""
    bench = Bench()

    def values() -> Iterator[bytes]:
        yield b"a"
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone") as caught:
        bench.producer.send_many(TOPIC, values())
    assert caught.value.receipt.record_count == 1  # type: ignore[attr-defined]
    assert not caught.value.receipt.done()  # type: ignore[attr-defined]
    bench.run()
    assert caught.value.receipt.done()  # type: ignore[attr-defined]


def test_a_full_buffer_ends_the_call_within_max_block_ms() -> None:
    """The error is `send`'s, and has the receipt."""
    bench = Bench(buffer_memory=64 * 1024, batch_size=16_384)
    with pytest.raises(BufferTimeout) as caught:
        bench.producer.send_many(TOPIC, itertools.repeat(b"x" * 1000))
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert 20 < receipt.record_count < 64
    bench.run()
    assert sum(part.count for part in receipt.result(0).values()) == receipt.record_count


def test_a_closed_producer_settles_the_receipt() -> None:
    """Closing fails unacknowledged records, and rejects further calls."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a", b"b"])
    bench.producer.close(0)
    assert receipt.done()
    assert [type(failure.error) for failure in receipt.failures()] == [ClosedError] * 2
    with pytest.raises(ClosedError):
        bench.producer.send_many(TOPIC, [b"c"])


def test_an_expired_batch_fails_its_records_by_index() -> None:
    """Records that a key scattered are named by their place in the call."""
    bench = Bench(delivery_timeout_ms=1000, request_timeout_ms=900, linger_ms=0)
    bench.lead(0, 0, -1)
    keys = [b"k%d" % index for index in range(40)]
    receipt = bench.producer.send_many(TOPIC, keys, keys=keys, headers=itertools.repeat([]))
    bench.run(turns=200)
    failures = receipt.failures()
    lost = {keys[failure.index] for failure in failures}
    assert lost == set(keys) - set(values_of(bench, 0)) - set(values_of(bench, 1))
    assert lost
    assert all(isinstance(failure.error, DeliveryTimeout) for failure in failures)


def test_an_empty_call_is_done_at_once() -> None:
    """No values, no batches."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [])
    assert receipt.done()
    assert receipt.result() == {}


def test_serializers_and_partitioner_see_each_record() -> None:
    """An exception in them is that record's error."""

    def serialize(value: Any) -> bytes:
        return b"%d" % (10 // value)

    def choose(_: bytes | None, everyone: Any, __: Any) -> int:
        return int(everyone[-1])

    bench = Bench(value_serializer=serialize, partitioner=choose)
    receipt = bench.producer.send_many(TOPIC, [1, 0, 5])
    bench.run()
    assert values_of(bench, 2) == [b"10", b"2"]
    ((index, error),) = receipt.failures()
    assert index == 1
    assert isinstance(error, SerializationError)


def test_interceptors_see_each_record() -> None:
    """Before it is sent and when it is settled; another topic is rejected."""

    class Marking:
        """Marks values, and moves one to another topic."""

        def __init__(self) -> None:
            self.settled: list[int] = []

        def on_send(self, record: Any) -> Any:
            moved = "other" if record.value == b"b" else record.topic
            return record._replace(value=record.value + b"!", topic=moved)

        def on_acknowledgement(self, metadata: RecordMetadata | None, _: KprodError | None) -> None:
            assert metadata is not None
            self.settled.append(metadata.offset)

        def close(self) -> None:
            """Nothing to close."""

    marking = Marking()
    bench = Bench(interceptors=[marking])
    receipt = bench.producer.send_many(TOPIC, [b"a", b"b", b"c"], partitions=itertools.repeat(0, 3))
    bench.run()
    assert values_of(bench, 0) == [b"a!", b"c!"]
    assert [failure.index for failure in receipt.failures()] == [1]
    assert marking.settled == [0, 1]


def test_a_generator_may_send_itself() -> None:
    """`send` and another bulk send inside the iterable: each record is where it was accepted."""
    bench = Bench()
    inner: list[Any] = []

    def values() -> Iterator[bytes]:
        for index in range(6):
            if index == 3:
                inner.append(bench.producer.send_many(TOPIC, [b"i", b"j"], partitions=[0, 0]))
                bench.producer.send(TOPIC, b"s", partition=0)
            yield b"%d" % index

    receipt = bench.producer.send_many(TOPIC, values(), partitions=itertools.repeat(0))
    bench.run()
    assert values_of(bench, 0) == [b"0", b"1", b"2", b"i", b"j", b"s", b"3", b"4", b"5"]
    assert receipt.result(0)[0] == (6, ((0, 8),))
    assert inner[0].result(0)[0] == (2, ((3, 4),))


def test_rejected_records_are_not_kept_by_their_errors() -> None:
    """An error is, with its cause; the frames that held the record are not."""

    class Order:
        """A type of the application."""

    seen: list[weakref.ref[Order]] = []

    def orders() -> Iterator[Order]:
        for _ in range(3):
            order = Order()
            seen.append(weakref.ref(order))
            yield order

    def serialize(order: Order) -> bytes:
        raise ValueError(f"no bytes for an {type(order).__name__}")

    bench = Bench(value_serializer=serialize)
    receipt = bench.producer.send_many(TOPIC, orders())
    gc.collect()
    assert [order() for order in seen] == [None] * 3
    for _, error in receipt.failures():
        assert isinstance(error, SerializationError)
        assert isinstance(error.__cause__, ValueError)
        assert error.__traceback__ is error.__cause__.__traceback__ is None
