"""Writes to brokers that want TLS and a login, in a worker's process but without Spark."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from kprod.errors import AuthenticationFailed, ConfigError
from kprod.spark import delivery_guarantee
from kprod.spark.columns import Columns
from kprod.spark.delivery_guarantee import AtLeastOnce
from kprod.spark.options import read_options
from kprod.spark.producers import ProducerCache

COLUMNS = Columns(value="value", key=None, headers=None, topic=None, partition=None, timestamp=None)
PASSWORD = "canary-of-alice"  # noqa: S105 - of this test
ROWS = pa.RecordBatch.from_pydict({"value": [b"one", b"two"]})


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the tests a cache of producers of their own.

    Yields:
        The cache.
    """
    cache = ProducerCache()
    monkeypatch.setattr(delivery_guarantee, "_producers", cache)
    yield cache
    cache.close()


@pytest.fixture
def cluster() -> Any:
    """Start a broker that wants both.

    Yields:
        Its cluster.
    """
    users = {"alice": PASSWORD}
    security = BrokerSecurity(protocol="SASL_SSL", users=users)
    with EmbeddedCluster(1, {"rows": 1}, security=security) as cluster:
        yield cluster


def options_for(cluster: EmbeddedCluster, tmp_path: Path, **more: str) -> dict[str, str]:
    """Options of a write, as a job for Spark's own sink has them."""
    authority = tmp_path / "ca.pem"
    authority.write_text(cluster.ca_pem, "utf-8")
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:KPROD_OF_ALICE",
        "kafka.ssl.ca.location": str(authority),
        "topic": "rows",
        **more,
    }


def sent_to_a_task(options: dict[str, str]) -> AtLeastOnce:
    """The write as an executor gets it; no secret travels."""
    travelling = pickle.dumps(AtLeastOnce(read_options(options), COLUMNS))
    assert PASSWORD.encode() not in travelling
    delivery: AtLeastOnce = pickle.loads(travelling)
    return delivery


@pytest.mark.usefixtures("producers")
def test_rows_arrive(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is read where the task runs."""
    delivery = sent_to_a_task(options_for(cluster, tmp_path))
    with pytest.raises(ConfigError, match="no environment variable KPROD_OF_ALICE"):
        delivery.write(iter([ROWS]))
    monkeypatch.setenv("KPROD_OF_ALICE", PASSWORD)
    delivery.prepare()
    delivery.write(iter([ROWS]))
    assert [record.value for record in cluster.records("rows")[0]] == [b"one", b"two"]


@pytest.mark.usefixtures("producers")
def test_a_wrong_password(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the look before any task, and the task, by the broker's text."""
    monkeypatch.setenv("KPROD_OF_ALICE", "wrong-canary")
    delivery = sent_to_a_task(options_for(cluster, tmp_path))
    for step in (delivery.prepare, lambda: delivery.write(iter([ROWS]))):
        with pytest.raises(AuthenticationFailed, match="rejected user 'alice'") as caught:
            step()
        assert "wrong-canary" not in str(caught.value)


def test_a_secret_that_is_replaced(
    cluster: EmbeddedCluster, tmp_path: Path, producers: ProducerCache
) -> None:
    """The next task has another producer; the one before is kept until there are too many."""
    secret = tmp_path / "password"
    options = options_for(cluster, tmp_path, **{"kafka.sasl.password": f"file:{secret}"})
    delivery = sent_to_a_task(options)
    made = []
    make = producers._make
    producers._make = lambda settings: made.append(1) or make(settings)  # type: ignore[func-returns-value]
    for text in (PASSWORD, PASSWORD, f"{PASSWORD}\n"):
        secret.write_text(text, "utf-8")
        delivery.write(iter([ROWS]))
    assert len(made) == 1
    secret.write_text("of-the-next-week", "utf-8")
    with pytest.raises(AuthenticationFailed, match="rejected user 'alice'"):
        delivery.write(iter([ROWS]))
    assert len(made) == 2
    assert len(cluster.records("rows")[0]) == 6
