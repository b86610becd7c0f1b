"""Where records without key go: whole batches, short queues first, slow and far brokers last."""

from collections import Counter
from typing import Any

import pytest

from kprod.config import ProducerConfig
from kprod.errors import ConfigError, UnknownPartition
from kprod.producer.partitioner import key_rule
from tests.producer.bench import TOPIC, Bench


def _drawn(bench: Bench, count: int = 3_000) -> Counter[int]:
    drawn: Counter[int] = Counter()
    for _ in range(count):
        bench.producer._kprod.support.roll_sticky(bench.head)
        drawn[bench.head.sticky] += 1
    return drawn


def test_idle_partitions_share_alike() -> None:
    """Nothing is queued anywhere: each partition with a leader has its third."""
    bench = Bench(leaders=(0, 1, 2, -1))
    drawn = _drawn(bench)
    assert set(drawn) == {0, 1, 2}
    assert max(drawn.values()) < 1.3 * min(drawn.values())
    bench.producer.close()


def test_long_queues_are_drawn_less() -> None:
    """KIP-794's own example: lengths 0, 3, 1 weigh 4, 1, 3."""
    bench = Bench(leaders=(0, 0, 0), batch_size=1)
    for partition, count in ((1, 3), (2, 1)):
        for _ in range(count):
            bench.producer.send(TOPIC, b"v", partition=partition)
    bench.clock.advance(100)
    drawn = _drawn(bench, 8_000)
    assert [round(drawn[partition] / 1_000) for partition in range(3)] == [4, 1, 3]
    bench.producer.close(0)


def test_adaptation_can_be_switched_off() -> None:
    """Then lengths do not matter."""
    bench = Bench(leaders=(0, 0), batch_size=1, partitioner_adaptive_partitioning_enable=False)
    for _ in range(30):
        bench.producer.send(TOPIC, b"v", partition=1)
    drawn = _drawn(bench)
    assert max(drawn.values()) < 1.2 * min(drawn.values())
    bench.producer.close(0)


def test_the_own_rack_goes_first() -> None:
    """KIP-1123: while any partition is led from there; else everyone again."""
    bench = Bench(
        leaders=(0, 1, 2), racks=("a", "b", "b"), partitioner_rack_aware=True, client_rack="b"
    )
    assert set(_drawn(bench, 200)) == {1, 2}
    bench.lead(0, 0, 0)
    bench.clock.advance(100)
    assert set(_drawn(bench, 200)) == {0, 1, 2}
    bench.producer.close()


def test_a_rack_must_be_named() -> None:
    """The error says by which setting."""
    with pytest.raises(ConfigError, match="partitioner_rack_aware=True needs client_rack"):
        ProducerConfig.parse({"bootstrap_servers": "b:1", "partitioner_rack_aware": True})


def test_a_broker_that_takes_nothing_gets_nothing_more() -> None:
    """After the timeout; and it is tried again once nothing waits for it."""
    bench = Bench(
        leaders=(0, 1),
        linger_ms=0,
        partitioner_availability_timeout_ms=50,
        delivery_timeout_ms=300,
        request_timeout_ms=200,
    )
    bench.client.room = 1
    for _ in range(2):
        bench.producer.send(TOPIC, b"v", partition=0)
        bench.turn()
        bench.turn()
    bench.producer.send(TOPIC, b"v", partition=0)
    bench.turn()
    bench.turn(60)
    bench.clock.advance(30)
    assert set(_drawn(bench, 100)) == {1}
    bench.turn(300)
    bench.client.room = 5
    bench.turn(30)
    assert set(_drawn(bench, 100)) == {0, 1}
    bench.producer.close()


def test_a_slow_topic_spreads_within_seconds() -> None:
    """10 KB/s in records of 1 KB: a batch is drained at its linger, and the next goes elsewhere."""
    bench = Bench(leaders=(0, 1, 2) * 4)
    for _ in range(100):
        bench.producer.send(TOPIC, b"x" * 1_000)
        for _ in range(10):
            bench.turn(10)
            for carried in list(bench.client.in_flight):
                bench.answer(carried)
    assert all(len(model.log) >= 1 for model in bench.partitions)
    bench.producer.close()


def test_one_slow_broker_of_three_gets_no_more_than_its_share() -> None:
    """It answers after 200 ms, the others after 10: at most 1.5 times a fair share."""
    bench = Bench(leaders=(0, 1, 2) * 2, batch_size=5_000)
    sent = 0
    for step in range(400):
        for _ in range(20):
            bench.producer.send(TOPIC, b"x" * 500)
            sent += 1
        bench.turn(10)
        for carried in list(bench.client.in_flight):
            if carried.request.node_id != 2 or step % 20 == 0:
                bench.answer(carried)
    bench.run(turns=100)
    slow = len(bench.partitions[2].log) + len(bench.partitions[5].log)
    assert sum(len(model.log) for model in bench.partitions) == sent
    assert slow <= 1.5 * sent / 3
    bench.producer.close()


def test_turns_skip_partitions_without_leader() -> None:
    """Round robin, exactly even, over those that can be sent to."""
    bench = Bench(leaders=(0, -1, 1), partitioner="round_robin")
    for _ in range(10):
        bench.producer.send(TOPIC, b"v", key=b"same")
    bench.run()
    assert [len(model.log) for model in bench.partitions] == [5, 0, 5]
    bench.lead(0, 0, 1)
    bench.turn()
    for _ in range(9):
        bench.producer.send(TOPIC, b"v")
    bench.run()
    assert [len(model.log) for model in bench.partitions] == [8, 3, 8]
    bench.producer.close()


@pytest.mark.parametrize("chosen", [3, -1, 1.0, None, "1"])
def test_a_partitioner_s_nonsense_is_rejected(chosen: Any) -> None:
    """At the call, with what it said."""
    bench = Bench(partitioner=lambda *_: chosen)
    with pytest.raises(UnknownPartition, match=f"chose {chosen!r} for topic 'orders'.* 0 to 2"):
        bench.producer.send(TOPIC, b"v")
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_a_partitioner_that_raises_stops_the_send() -> None:
    """Its own error, nothing appended."""

    def fail(*_: object) -> int:
        raise ZeroDivisionError

    bench = Bench(partitioner=fail)
    with pytest.raises(ZeroDivisionError):
        bench.producer.send(TOPIC, b"v", key=b"k")
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("murmur2", (0, 0)),
        ("consistent", (1, -1)),
        ("consistent_random", (1, 1)),
        ("fnv1a", (2, -1)),
        ("fnv1a_random", (2, 0)),
    ],
)
def test_names_are_rules_for_keys(name: str, rule: tuple[int, int]) -> None:
    """A hash function, and the keys that it is used for."""
    config = ProducerConfig.parse({"bootstrap_servers": "b:1", "partitioner": name})
    assert key_rule(config.partitioner_settings()) == rule
