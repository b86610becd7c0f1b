"""Consumers of several clients in one group, polled in turn by one thread."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as KafkaSticky,
)

from kprod import Producer
from kprod.clock import SystemClock
from kprod.consumer.consumer import Consumer

PARTITIONS = 4
LIMIT_MS = 50_000
Place = tuple[int, int]


class Member(Protocol):
    """A member of the group."""

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""

    def owned(self) -> list[int]:
        """Return the assigned partitions."""

    def close(self) -> None:
        """Leave."""


class KprodMember:
    """kprod's."""

    def __init__(self, servers: str, group: str, topic: str, strategy: str) -> None:
        """Subscribe."""
        self._consumer = Consumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            partition_assignment_strategy=strategy,
        )
        self._consumer.subscribe(topic)

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""
        return [(it.partition, it.offset) for it in self._consumer.poll(0.1)]

    def owned(self) -> list[int]:
        """Return the assigned partitions."""
        return [key.partition for key in self._consumer.assignment()]

    def close(self) -> None:
        """Leave."""
        self._consumer.close(10)


class ConfluentMember:
    """librdkafka's."""

    def __init__(self, servers: str, group: str, topic: str, strategy: str) -> None:
        """Subscribe."""
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 200,
                "partition.assignment.strategy": strategy,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""
        found = self._consumer.consume(100, 0.1)
        return [(it.partition() or 0, it.offset() or 0) for it in found if it.error() is None]

    def owned(self) -> list[int]:
        """Return the assigned partitions."""
        return [it.partition for it in self._consumer.assignment()]

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


_KAFKA_PYTHON = {
    "range": KafkaRange,
    "roundrobin": KafkaRoundRobin,
    "sticky": KafkaSticky,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember:
    """kafka-python's."""

    def __init__(self, servers: str, group: str, topic: str, strategy: str) -> None:
        """Subscribe."""
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=servers.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[_KAFKA_PYTHON[strategy]],
        )

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""
        # A shorter poll may end between the leader's assignment and the response of its SyncGroup,
        # which kafka-python 3.0.12 then never takes, here as on Apache Kafka.
        found = self._consumer.poll(1_000)
        return [(it.partition, it.offset) for records in found.values() for it in records]

    def owned(self) -> list[int]:
        """Return the assigned partitions."""
        return [it.partition for it in self._consumer.assignment()]

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


_AIOKAFKA = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember:
    """aiokafka's, whose loop runs in its calls only."""

    def __init__(self, servers: str, group: str, topic: str, strategy: str) -> None:
        """Subscribe."""
        self._loop = asyncio.new_event_loop()

        async def make() -> AIOKafkaConsumer:
            await asyncio.sleep(0)  # it must be made in a loop that runs
            return AIOKafkaConsumer(
                topic,
                bootstrap_servers=servers,
                group_id=group,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
                partition_assignment_strategy=(_AIOKAFKA[strategy],),
            )

        self._consumer = self._loop.run_until_complete(make())
        self._starting = self._loop.create_task(self._consumer.start())  # waits for the group

    def poll(self) -> list[Place]:
        """Return partition and offset of some records."""

        async def read() -> dict[Any, list[Any]]:
            if not self._starting.done():
                await asyncio.wait([self._starting], timeout=0.2)
                return {}
            found: dict[Any, list[Any]] = await self._consumer.getmany(timeout_ms=200)
            return found

        found = self._loop.run_until_complete(read())
        return [(it.partition, it.offset) for records in found.values() for it in records]

    def owned(self) -> list[int]:
        """Return the assigned partitions."""
        return [it.partition for it in self._consumer.assignment()]

    def close(self) -> None:
        """Leave."""
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


PEERS: dict[str, Callable[[str, str, str, str], Member]] = {
    "confluent": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}
CASES = [
    *(("confluent", it) for it in ("range", "roundrobin", "cooperative-sticky")),
    *(("kafka-python", it) for it in ("range", "roundrobin", "sticky", "cooperative-sticky")),
    *(("aiokafka", it) for it in ("range", "roundrobin", "sticky")),
]
"""Each client with the assignors that it has."""


def fill(servers: str, topic: str, count: int) -> None:
    """Append records to every partition."""
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count * PARTITIONS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def poll_until(members: list[Member], is_done: Callable[[], bool], seen: list[list[Place]]) -> None:
    """Poll members in turn, and note what each reads."""
    until_ms = SystemClock().now_ms() + LIMIT_MS
    while not is_done():
        owned = [sorted(each.owned()) for each in members]
        assert SystemClock().now_ms() < until_ms, (owned, [len(it) for it in seen])
        for each, places in zip(members, seen, strict=True):
            places.extend(each.poll())


def share_a_topic(
    servers: str, topic: str, peer: str, strategy: str, *, kprod_leads: bool
) -> list[Place]:
    """Let kprod and a peer share a topic; then one leaves, and the other reads the rest.

    Every record is read by one of them, or this raises.

    Returns:
        Partition and offset of each record that kprod has read.
    """
    makers = [KprodMember, PEERS[peer]] if kprod_leads else [PEERS[peer], KprodMember]
    made: list[Member] = []

    def make() -> Member:
        made.append(makers[len(made)](servers, f"{topic}-group", topic, strategy))
        return made[-1]

    try:
        seen = _share(servers, topic, make)
    except BaseException:
        for each in made:  # a member left open would fail other tests, too
            with contextlib.suppress(Exception):
                each.close()
        raise
    return seen[0] if kprod_leads else seen[1]


def _share(servers: str, topic: str, make: Callable[[], Member]) -> list[list[Place]]:
    """Share a topic, as `share_a_topic` says, between two members; returns what each has read."""
    every = [(number, offset) for number in range(PARTITIONS) for offset in range(20)]
    fill(servers, topic, 10)
    first = make()
    members: list[Member] = [first]
    seen: list[list[Place]] = [[]]
    poll_until(members, lambda: len(first.owned()) == PARTITIONS and len(seen[0]) >= 40, seen)
    second = make()
    members, seen = [first, second], [seen[0], []]

    def is_shared() -> bool:
        owned = sorted(first.owned()) + sorted(second.owned())
        return sorted(owned) == list(range(PARTITIONS)) and 1 < len(second.owned()) < PARTITIONS

    poll_until(members, is_shared, seen)
    fill(servers, topic, 10)
    poll_until(members, lambda: set(seen[0] + seen[1]) == set(every), seen)
    first.close()
    poll_until([second], lambda: len(second.owned()) == PARTITIONS, [seen[1]])
    fill(servers, topic, 5)
    rest = {(number, offset) for number in range(PARTITIONS) for offset in range(20, 25)}
    poll_until([second], lambda: rest <= set(seen[1]), [seen[1]])
    second.close()
    return seen
