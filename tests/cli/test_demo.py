"""The demonstration's parts over an embedded broker: send, acknowledge, read back, compare."""

from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster
from kprod.cli import app, demo
from kprod.cli.comparison import Comparison
from kprod.cli.flights import FlightsMissing
from kprod.errors import BrokerError
from kprod.network.topic_admin import create_topic

FLIGHTS = [(f"carrier-{n % 7}".encode(), f'{{"flight":{n}}}'.encode() * 5) for n in range(5_000)]


def _named(cluster: EmbeddedCluster) -> dict[str, object]:
    """Settings that name the cluster."""
    return {"bootstrap.servers": cluster.bootstrap_servers}


def _ignore(count: int) -> None:
    assert count >= 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Three brokers."""
    with EmbeddedCluster(3) as running:
        yield running


def test_sent_records_are_read_back(cluster: EmbeddedCluster) -> None:
    """A topic is made, every record sent, acknowledged, read back and found equal."""
    create_topic(cluster.bootstrap_servers, "there-and-back", 6)
    settings = _named(cluster)
    sending, futures = demo.send_all(settings, "there-and-back", FLIGHTS, _ignore)
    comparison = Comparison(FLIGHTS)
    sending = demo.acknowledge_all(futures, comparison, sending)
    demo.compare_all(settings, "there-and-back", comparison, _ignore)
    assert comparison.is_whole
    assert sending.failure_count == 0
    assert len(sending.latencies_ns) == len(FLIGHTS) // demo.SAMPLE_EVERY
    assert 1 <= sending.batch_count <= len(FLIGHTS)


def test_a_record_that_is_lost_is_found_out(cluster: EmbeddedCluster) -> None:
    """A log cut behind the producer's back fails the comparison."""
    create_topic(cluster.bootstrap_servers, "cut", 1)
    settings = _named(cluster)
    sending, futures = demo.send_all(settings, "cut", FLIGHTS[:100], _ignore)
    comparison = Comparison(FLIGHTS[:100])
    demo.acknowledge_all(futures, comparison, sending)
    cluster.delete_topic("cut")
    cluster.create_topic("cut", 1)
    demo.compare_all(settings, "cut", comparison, _ignore)
    assert not comparison.is_whole
    assert comparison.missing_count == 100


def test_a_topic_that_exists_is_not_made_again(cluster: EmbeddedCluster) -> None:
    """The cluster's rejection is passed on, with the topic's name."""
    create_topic(cluster.bootstrap_servers, "taken", 2)
    with pytest.raises(BrokerError, match="taken"):
        create_topic(cluster.bootstrap_servers, "taken", 2)
    assert cluster.describe("taken", 1).log_end_offset == 0


def test_the_exit_code_follows_the_verification(
    cluster: EmbeddedCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 if every record came back; 1, with one line, if there is no table."""
    monkeypatch.setattr(demo, "read_flights", lambda _: iter(FLIGHTS[:200]))
    monkeypatch.setattr(demo, "find_flights", lambda: None)
    assert app.run(["demo", "--bootstrap", cluster.bootstrap_servers]) == 0
    assert capsys.readouterr().out.endswith("verified: 200 of 200\n")

    def missing() -> None:
        raise FlightsMissing("no table")

    monkeypatch.setattr(demo, "find_flights", missing)
    assert app.run(["demo"]) == 1
    assert capsys.readouterr().err == "kprod: no table\n"
