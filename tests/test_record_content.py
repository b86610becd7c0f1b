"""The content of records is in no line of a log, whatever happens to a record."""

import logging
from typing import Any

import pytest

from kprod import Consumer, Producer
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

CANARY = "canary-of-a-record"
HEADERS = [("trace", CANARY.encode())]


def raising(*_: object) -> Any:
    """A serializer, callback or deserializer that fails, and does not repeat its argument."""
    raise ValueError("cannot be read")


def put(producer: Producer, **more: Any) -> Any:
    """Send the canary as key, value and header."""
    return producer.send("orders", CANARY.encode(), key=CANARY.encode(), headers=HEADERS, **more)


def is_silent(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether there are lines, and the canary is in none."""
    lines = [f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records]
    return bool(lines) and not any(CANARY in line for line in lines)


def test_producer(caplog: pytest.LogCaptureFixture) -> None:
    """Lost, repeated, rejected and too large; and with a callback that raises."""
    caplog.set_level(logging.DEBUG)
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
        with Producer(settings, linger_ms=0, retry_backoff_ms=1) as producer:
            cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            put(producer, on_delivery=raising).result(30)
            cluster.faults.disconnect(ApiKey.PRODUCE)
            put(producer).result(30)
            cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
            assert isinstance(put(producer).exception(30), KprodError)
            with pytest.raises(KprodError) as caught:
                producer.send("orders", CANARY.encode() * 1_000_000)
            assert CANARY not in str(caught.value)
    assert is_silent(caplog)


def test_consumer(caplog: pytest.LogCaptureFixture) -> None:
    """Of a deserializer that raises, the position is told."""
    caplog.set_level(logging.DEBUG)
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
        with Producer(settings) as producer:
            put(producer).result(30)
        wanted: dict[str, Any] = {"auto_offset_reset": "earliest"}
        wanted["value_deserializer"] = raising
        with Consumer(settings=settings, **wanted) as consumer:
            consumer.assign([("orders", 0)])
            with pytest.raises(KprodError, match="ValueError") as caught:
                consumer.poll(30)
            assert CANARY not in str(caught.value)
    assert is_silent(caplog)
