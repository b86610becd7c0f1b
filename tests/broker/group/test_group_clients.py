"""Consumers that nobody here wrote, in groups on the embedded broker."""

import asyncio
from collections.abc import Callable

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.clock import SystemClock

GROUP, TOPIC, COUNT = "readers", "orders", 80
LIMIT_MS = 40_000


def is_done(cluster: EmbeddedCluster, values: list[bytes]) -> bool:
    """Whether both members have partitions, and every record was read."""
    groups = cluster.groups()
    if not groups or groups[0].state != "Stable" or len(groups[0].members) != 2:
        return False
    return len(set(values)) == COUNT


def read_confluent(cluster: EmbeddedCluster, values: list[bytes]) -> None:
    """With librdkafka."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 200,
    }
    consumers = [confluent_kafka.Consumer(settings) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([TOPIC])
    until = SystemClock().now_ms() + LIMIT_MS
    while not is_done(cluster, values) and SystemClock().now_ms() < until:
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
    check_assignments(cluster)
    for consumer in consumers:
        consumer.close()


def read_kafka_python(cluster: EmbeddedCluster, values: list[bytes]) -> None:
    """With kafka-python."""
    consumers = [
        kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            group_id=GROUP,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        for _ in range(2)
    ]
    until = SystemClock().now_ms() + LIMIT_MS
    while not is_done(cluster, values) and SystemClock().now_ms() < until:
        for consumer in consumers:
            for records in consumer.poll(200).values():
                values += [it.value for it in records]
    check_assignments(cluster)
    for consumer in consumers:
        consumer.close()


def read_aiokafka(cluster: EmbeddedCluster, values: list[bytes]) -> None:
    """With aiokafka."""

    async def read() -> None:
        consumers = [
            AIOKafkaConsumer(
                TOPIC,
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=GROUP,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )
            for _ in range(2)
        ]
        await asyncio.gather(*(it.start() for it in consumers))
        until = SystemClock().now_ms() + LIMIT_MS
        while not is_done(cluster, values) and SystemClock().now_ms() < until:
            for consumer in consumers:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    values.extend(it.value for it in records)
        check_assignments(cluster)
        for consumer in consumers:
            await consumer.stop()

    asyncio.run(read())


def check_assignments(cluster: EmbeddedCluster) -> None:
    """Every partition has one owner."""
    owned = [
        index
        for member in cluster.group(GROUP).members
        for index in (member.assignment or {}).get(TOPIC, [])
    ]
    assert sorted(owned) == [0, 1, 2, 3]


READERS: dict[str, Callable[[EmbeddedCluster, list[bytes]], None]] = {
    "confluent": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
}


@pytest.mark.parametrize("client", READERS)
def test_two_members_share_a_topic(client: str) -> None:
    """They read everything, commit as they leave, and the group is empty then."""
    values: list[bytes] = []
    with EmbeddedCluster(brokers=3, topics={TOPIC: 4}) as cluster:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(COUNT):
                producer.send(TOPIC, b"%d" % number, partition=number % 4)

        READERS[client](cluster, values)

        assert sorted(set(values)) == sorted(b"%d" % number for number in range(COUNT))
        group = cluster.group(GROUP)
        assert (group.state, group.members) == ("Empty", ())
        assert [it.offset for it in group.offsets.values()] == [COUNT // 4] * 4
