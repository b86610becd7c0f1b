"""The alerts of the page about production: each is raised by what it is said to mean.

A broker is made to misbehave, and the expression of the page is looked at in the metrics that a
producer gives. How long an expression has to be true is the business of what watches it.
"""

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from kprod import Producer
from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import BufferTimeout, KprodError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.docs.examples import ROOT

LIMIT_S = 60
LOOK_S = 0.05
REQUEST_TIMEOUT_MS, METADATA_MAX_AGE_MS, LINGER_MS = 3_000, 500, 0
SECURITY = BrokerSecurity(protocol="SASL_PLAINTEXT", users={"alice": "right-secret"})

Metrics = Mapping[str, float]

EXPRESSIONS: Mapping[str, Callable[[Metrics], bool]] = {
    "`record-error-rate` > 0": lambda it: it["record-error-rate"] > 0,
    "`buffer-available-bytes` / `buffer-total-bytes` < 0.1": lambda it: (
        it["buffer-available-bytes"] / it["buffer-total-bytes"] < 0.1
    ),
    "`buffer-exhausted-rate` > 0": lambda it: it["buffer-exhausted-rate"] > 0,
    "`bufferpool-wait-ratio` > 0.05": lambda it: it["bufferpool-wait-ratio"] > 0.05,
    "`request-latency-p99` > a third of `request_timeout_ms`": lambda it: (
        it["request-latency-p99"] > REQUEST_TIMEOUT_MS / 3
    ),
    "`record-queue-time-max` > `linger_ms` + a second": lambda it: (
        it["record-queue-time-max"] > LINGER_MS + 1_000
    ),
    "`record-retry-rate` / `record-send-rate` > 0.05": lambda it: (
        it["record-retry-rate"] / (it["record-send-rate"] or math.inf) > 0.05
    ),
    "`connection-count` = 0": lambda it: it["connection-count"] == 0,
    "`produce-throttle-time-avg` > 0": lambda it: it["produce-throttle-time-avg"] > 0,
    "`metadata-age` (in seconds) > 2 × `metadata_max_age_ms`": lambda it: (
        it["metadata-age"] > 2 * METADATA_MAX_AGE_MS / 1_000
    ),
    "`failed-authentication-total` grows": lambda it: it["failed-authentication-total"] > 0,
}

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """A broker that can be made to misbehave."""
    with EmbeddedCluster(1, {"orders": 1}, security=SECURITY) as cluster:
        yield cluster


def _producer(cluster: EmbeddedCluster, **more: object) -> Producer:
    settings = cluster.client_settings(mechanism="PLAIN") | {
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "metadata.max.age.ms": METADATA_MAX_AGE_MS,
        "linger.ms": LINGER_MS,
    }
    return Producer(settings | more)


def _raised(producer: Producer) -> set[str]:
    metrics = producer.metrics()["producer-metrics"]
    return {text for text, is_true in EXPRESSIONS.items() if is_true(metrics)}


def _await_raised(producer: Producer, wanted: str) -> None:
    for _ in range(int(LIMIT_S / LOOK_S)):
        if wanted in _raised(producer):
            return
        threading.Event().wait(LOOK_S)
    pytest.fail(f"{wanted} never becomes true: {producer.metrics()['producer-metrics']}")


def test_every_alert_of_the_page_is_tried() -> None:
    """And none that is not there."""
    page = (ROOT / "docs" / "production.md").read_text("utf-8")
    _, _, chapter = page.partition("## Alerts")
    lines = re.findall(
        r"^\| (`.+?) \| [^|]+ \| [^|]+ \|$", chapter.partition("\n## ")[0], re.MULTILINE
    )
    assert lines == list(EXPRESSIONS)


def test_a_healthy_producer_raises_none(cluster: EmbeddedCluster) -> None:
    """Records are sent, and every expression is false."""
    with _producer(cluster) as producer:
        for _ in range(100):
            producer.send("orders", b"order").result(LIMIT_S)
        assert _raised(producer) == set()


def test_records_that_fail(cluster: EmbeddedCluster) -> None:
    """For good: the topic takes no such record."""
    cluster.create_topic("small", 1, settings={"max.message.bytes": "100"})
    with _producer(cluster) as producer:
        assert producer.send("small", b"x" * 1_000).exception(LIMIT_S) is not None
        assert "`record-error-rate` > 0" in _raised(producer)


def test_a_buffer_that_is_full(cluster: EmbeddedCluster) -> None:
    """The broker hangs: memory is used up, `send` waits, then it raises.

    A slow machine closes batches early, and up to a batch's memory is then left.
    """
    with _producer(
        cluster, **{"buffer.memory": 262_144, "batch.size": 16_384, "max.block.ms": 1_000}
    ) as producer:
        producer.send("orders", b"first").result(LIMIT_S)
        cluster.faults.stall(0)
        with pytest.raises(BufferTimeout):
            _fill(producer)
        raised = _raised(producer)
        cluster.faults.resume(0)
    assert raised >= {
        "`buffer-available-bytes` / `buffer-total-bytes` < 0.1",
        "`buffer-exhausted-rate` > 0",
        "`bufferpool-wait-ratio` > 0.05",
    }


def _fill(producer: Producer) -> None:
    for _ in range(1_000):
        producer.send("orders", b"x" * 1_000)


def test_a_slow_broker(cluster: EmbeddedCluster) -> None:
    """Requests take long, and batches behind them wait."""
    with _producer(cluster, **{"max.in.flight.requests.per.connection": 1}) as producer:
        producer.send("orders", b"first").result(LIMIT_S)
        cluster.faults.delay(ApiKey.PRODUCE, REQUEST_TIMEOUT_MS // 2)
        slow = producer.send("orders", b"second")
        while cluster.faults.untriggered():
            threading.Event().wait(LOOK_S)
        producer.send("orders", b"third").result(LIMIT_S)
        slow.result(LIMIT_S)
        assert _raised(producer) >= {
            "`request-latency-p99` > a third of `request_timeout_ms`",
            "`record-queue-time-max` > `linger_ms` + a second",
        }


def test_a_leader_that_moves(cluster: EmbeddedCluster) -> None:
    """A broker rejects, and the record is sent again."""
    cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with _producer(cluster) as producer:
        producer.send("orders", b"order").result(LIMIT_S)
        assert "`record-retry-rate` / `record-send-rate` > 0.05" in _raised(producer)


def test_a_quota(cluster: EmbeddedCluster) -> None:
    """The broker asks for silence."""
    cluster.throttle(ApiKey.PRODUCE, 20)
    with _producer(cluster) as producer:
        producer.send("orders", b"order").result(LIMIT_S)
        assert "`produce-throttle-time-avg` > 0" in _raised(producer)


def test_a_cluster_that_is_away(cluster: EmbeddedCluster) -> None:
    """There is no connection any more, and the metadata grows old."""
    with _producer(cluster) as producer:
        producer.send("orders", b"order").result(LIMIT_S)
        cluster.stop_broker(0)
        _await_raised(producer, "`connection-count` = 0")
        _await_raised(producer, "`metadata-age` (in seconds) > 2 × `metadata_max_age_ms`")
        cluster.start_broker(0)


def test_credentials_that_are_wrong(cluster: EmbeddedCluster) -> None:
    """A login fails."""
    with _producer(cluster, sasl_plain_password="wrong-secret") as producer:  # noqa: S106 - a test's
        with pytest.raises(KprodError):
            producer.send("orders", b"order").result(LIMIT_S)
        assert "`failed-authentication-total` grows" in _raised(producer)
