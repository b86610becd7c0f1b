"""Interceptors see every record and every outcome; what they raise goes to the log."""

import logging
from typing import Any

import pytest

from kprod.config import ProducerConfig
from kprod.errors import ConfigError, KprodError
from kprod.interfaces import OutgoingRecord
from kprod.model import Header, RecordMetadata
from tests.producer.bench import TOPIC, Bench


class _Marking:
    """Adds a header and takes notes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[tuple[str, object]] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Add a header."""
        self.seen.append(("send", record.value))
        return record._replace(headers=(*record.headers, Header(self.name, b"1")))

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Note."""
        self.seen.append(("done", metadata.offset if metadata is not None else type(error)))

    def close(self) -> None:
        """Note."""
        self.seen.append(("close", None))


class _Failing(_Marking):
    """Raises wherever it can."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        raise ZeroDivisionError(record.topic)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise ZeroDivisionError(metadata, error)

    def close(self) -> None:
        raise ZeroDivisionError


def test_records_pass_in_order_and_outcomes_before_callbacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The one in the middle fails each time: a line in the log, and everything continues."""
    first, last = _Marking("first"), _Marking("last")
    bench = Bench(interceptors=[first, _Failing("fails"), last])
    order: list[object] = []
    with caplog.at_level(logging.ERROR):
        future = bench.producer.send(
            TOPIC,
            b"v",
            headers={"own": b"0"},
            partition=0,
            on_delivery=lambda metadata, _: order.append((metadata, list(last.seen))),
        )
        bench.run(turns=5)
        bench.producer.close()
    assert future.result(0).offset == 0
    assert order == [(future.result(0), [("send", b"v"), ("done", 0)])]
    assert first.seen == last.seen == [("send", b"v"), ("done", 0), ("close", None)]
    assert [record.getMessage().split(" failed ")[1] for record in caplog.records] == [
        "in on_send; the record continues",
        "in on_acknowledgement",
        "to close",
    ]


def test_an_interceptor_may_send_the_record_elsewhere() -> None:
    """Topic, partition, key and value are its to change."""

    class Elsewhere(_Marking):
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            return record._replace(partition=1, value=b"other")

    bench = Bench(interceptors=[Elsewhere("e")])
    bench.producer.send(TOPIC, b"v", partition=0)
    bench.run(turns=5)
    assert bench.partitions[1].log == [b"other"]
    bench.producer.close()


def test_an_interceptor_hears_of_failures() -> None:
    """The error, once, and no metadata."""
    marking = _Marking("m")
    bench = Bench(interceptors=[marking])
    bench.producer.send(TOPIC, b"v", partition=0)
    bench.producer.purge()
    assert marking.seen[1][0] == "done"
    assert issubclass(marking.seen[1][1], KprodError)  # type: ignore[arg-type]
    bench.producer.close()


@pytest.mark.parametrize("headers", [5, [1], [("a", b"", b"")]])
def test_malformed_headers_are_rejected_all_the_same(headers: Any) -> None:
    """At the call."""
    bench = Bench(interceptors=[_Marking("m")])
    with pytest.raises(TypeError):
        bench.producer.send(TOPIC, b"v", headers=headers)
    with pytest.raises(TypeError, match="on_delivery must be callable"):
        bench.producer.send(TOPIC, b"v", on_delivery=5)  # type: ignore[arg-type]
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


@pytest.mark.parametrize("given", ["my.module.Interceptor", [_Marking], [object()], 5])
def test_an_object_that_is_no_interceptor_is_rejected(given: object) -> None:
    """A name is not imported, a class is no object, an object has three methods."""
    with pytest.raises(ConfigError, match=r"interceptors.* must be a list of interceptors"):
        ProducerConfig.parse({"bootstrap_servers": "b:1", "interceptors": given})
