"""The reading race counts what it says: gaps are found, rounds end, and its readers read it all."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kprod import Consumer, Producer
from kprod.broker import EmbeddedCluster

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import read_clients  # noqa: E402 - lies beside the package
import read_limit  # noqa: E402
import read_load  # noqa: E402
import read_loops  # noqa: E402
import read_sender  # noqa: E402
import read_waits  # noqa: E402

COUNT = 3_000
VALUE = b"v" * 100


def load_of(address: str = "", seconds: float = 0.0) -> read_load.ReadLoad:
    """The load of a topic with two partitions."""
    return read_load.ReadLoad(address, "race", 2, COUNT, seconds, "as it comes")


def test_a_gap_is_found() -> None:
    """In each partition by itself."""
    load = load_of()
    assert load.check([(0, 0), (1, 0), (0, 1)])
    with pytest.raises(RuntimeError, match="partition 1: offset 2, not 1"):
        load.check([(1, 2)])


def test_the_check_ends_with_the_topic() -> None:
    """A topic may have fewer records than are checked."""
    load = load_of()
    assert not load.check([(0, offset) for offset in range(COUNT)])


def test_a_round_ends_with_the_last_record() -> None:
    """One record more is a fault of the reader."""
    load = load_of()
    load.begin()
    assert not load.take(COUNT - 1, 0)
    assert load.take(1, 0)
    with pytest.raises(RuntimeError, match=f"{COUNT + 1} records of {COUNT}"):
        load.take(COUNT + 1, 0)


def test_readers_read_every_record_again_and_again() -> None:
    """The four ways of kprod, and the limit's requests."""
    runs = [
        read_clients.kprod_iterate,
        read_clients.kprod_poll,
        read_clients.kprod_arrow,
        read_loops.kprod_async,
        read_limit.replay,
    ]
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("race", 2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            partitions = [number % 2 for number in range(COUNT)]
            producer.send_many("race", [VALUE] * COUNT, partitions=partitions).result()
        for run in runs:
            load = load_of(cluster.bootstrap_servers, seconds=0.3)
            run(load)
            figures = load.figures()
            assert figures["count"] > 0
            if run is not read_limit.replay:
                assert figures["value_bytes"] == figures["count"] * len(VALUE)


def test_a_value_tells_its_age() -> None:
    """Since the call that made it, in nanoseconds."""
    older, newer = read_sender.stamped(), read_sender.stamped()
    assert len(older) == read_sender.VALUE_BYTES
    newer_ns = read_sender.age_ns(newer)
    assert 0 <= newer_ns <= read_sender.age_ns(older)


@pytest.mark.parametrize("shares", [True, False], ids=["one sender for all", "its own sender"])
def test_the_time_of_lone_records_is_measured(
    shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each record that was sent, wherever the sender is."""
    monkeypatch.setattr(read_waits, "SETTLE_S", 0.01)
    with EmbeddedCluster(brokers=1) as cluster, ExitStack() as stack:
        address = cluster.bootstrap_servers
        cluster.create_topic("race", 1)
        sends = [str(ROOT / "benchmarks/read.py"), "--child", "sender", "--kafka", address]
        sender = read_sender.sender([*sends, "--sender"])
        path = stack.enter_context(sender) if shares else None
        figures = read_waits.latency(read_waits.Wait("kprod", address, "race", 1, 0), [5, 5], path)
        sent = read_waits.WARM_UP + 2 * (read_waits.WARM_UP_OF_BURST + 5)
        with Consumer(bootstrap_servers=address) as consumer:
            assert consumer.end_offsets([("race", 0)]) == {("race", 0): sent}
    assert 0 < figures["p50"] <= figures["p99"]
    assert figures["cpu"] > 0
