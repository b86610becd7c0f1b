"""Texts of a producer's errors and warnings: correct counts, settings as the user wrote them."""

import re

import pytest

import kprod
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.broker import EmbeddedCluster
from kprod.errors import DeliveryTimeout
from tests.producer.bench import TOPIC, Bench


def test_one_record_that_was_tried_once_is_singular() -> None:
    """The text of an expired batch counts its records and its attempts."""
    bench = Bench(leaders=(0,), linger_ms=0, request_timeout_ms=50, delivery_timeout_ms=100)
    future = bench.send(0, b"v")
    bench.turn()
    bench.turn()  # the first brought the producer id
    (carried,) = bench.client.in_flight
    bench.client.lose(carried)
    bench.turn()
    bench.lead(-1)
    bench.turn(200)
    with pytest.raises(DeliveryTimeout) as raised:
        future.result(0)
    bench.producer.close()
    assert re.findall(r"1 (record|time)s?\b", str(raised.value)) == ["record", "time"]
    assert "1 records" not in str(raised.value)
    assert "1 times" not in str(raised.value)


def test_one_send_that_waits_is_singular() -> None:
    """The error of a full buffer counts the sends that wait."""
    bench = Bench(leaders=(-1,), buffer_memory=32_768)
    pool = bench.pool
    assert ", 0 sends wait for some" in str(pool.timeout_error(16_384, 0))
    waiter = MemoryWaiter(4, large=True, chunk_bytes=16_384)
    pool.start_waiting(waiter)
    error = pool.timeout_error(16_384, 0)
    pool.remove_waiter(waiter)
    bench.producer.close()
    assert ", 1 send waits for some" in str(error)


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("no topic!", "' ' at index 2"),
        ("", "at least 1 character"),
        ("..", "'..' is reserved"),
        ("x" * 250, "250 characters; at most 249"),
    ],
)
def test_a_topic_name_is_rejected_with_its_one_fault(topic: str, fault: str) -> None:
    """Not with the list of all that a name may not be."""
    bench = Bench()
    with pytest.raises(ValueError, match="name") as raised:
        bench.producer.send(topic, b"v")
    bench.producer.close()
    assert fault in str(raised.value)
    assert "neither" not in str(raised.value)


def test_one_undelivered_record_is_singular_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The warning of a `with` block that ends with records left over."""
    bench = Bench(leaders=(-1,), linger_ms=0, delivery_timeout_ms=100, request_timeout_ms=50)
    bench.send(0, b"v")
    producer = bench.producer
    producer.close = lambda timeout=None: 1  # type: ignore[method-assign]  # noqa: ARG005
    producer.__exit__(None, None, None)
    del producer.close
    producer.close()
    assert [record.getMessage() for record in caplog.records if "delivered" in record.message] == [
        f"{producer.client_id}: 1 record was not delivered"
    ]


def test_a_receipt_of_one_record_is_singular() -> None:
    """In its repr."""
    with (
        EmbeddedCluster(brokers=1, topics={TOPIC: 1}) as cluster,
        kprod.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        receipt = producer.send_many(TOPIC, [b"v"])
        receipt.result(30)
    assert "1 record," in repr(receipt)
