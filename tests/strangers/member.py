"""A member of a group, by another client or by kprod: a program that reads until SIGTERM.

    python -m tests.strangers.member '{"client": "confluent", "servers": "127.0.0.1:9092", ...}'

It prints `ready` and waits for a line. Then it prints partition and offset of each record, a line
each, before it commits; kprod's also prints which partitions it gets and gives up.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors import range as aiokafka_range
from aiokafka.coordinator.assignors import roundrobin as aiokafka_roundrobin
from aiokafka.coordinator.assignors.sticky import sticky_assignor as aiokafka_sticky
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.coordinator.assignors import cooperative_sticky, roundrobin
from kafka.coordinator.assignors import range as kafka_range
from kafka.coordinator.assignors.sticky import sticky_assignor
from kafka.errors import KafkaError

from kprod import Consumer, RebalanceListener, TopicPartition
from kprod.errors import KprodError

HEARTBEAT_MS, COMMIT_MS = 300, 200
KAFKA_PYTHON_POLL_MS = 4_000
"""Longer than a rebalance lasts: a shorter poll can leave kafka-python 3.0.12 without heartbeats
and fetches for ever, here as on Apache Kafka. A leader that joins because the topics' metadata
changed (`need_rejoin`) no longer needs to join once it has made the assignment. If the poll ends
between that and the response of its SyncGroup, no later poll takes the response."""

KAFKA_PYTHON: Mapping[str, Any] = {
    "range": kafka_range.RangePartitionAssignor,
    "roundrobin": roundrobin.RoundRobinPartitionAssignor,
    "sticky": sticky_assignor.StickyPartitionAssignor,
    "cooperative-sticky": cooperative_sticky.CooperativeStickyAssignor,
}
AIOKAFKA: Mapping[str, Any] = {
    "range": aiokafka_range.RangePartitionAssignor,
    "roundrobin": aiokafka_roundrobin.RoundRobinPartitionAssignor,
    "sticky": aiokafka_sticky.StickyPartitionAssignor,
}


class Stop:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        """Wait for it."""
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_set = True


def tell(partition: int | None, offset: int | None) -> None:
    """Print a record's place."""
    sys.stdout.write(f"{partition} {offset}\n")
    sys.stdout.flush()


def tell_all(verb: str, partitions: Sequence[TopicPartition]) -> None:
    """Print the partitions that change hands."""
    sys.stdout.write(f"{verb} {' '.join(str(it.partition) for it in partitions)}\n")
    sys.stdout.flush()


def common(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose names the clients share, but for dots."""
    settings = {
        "bootstrap_servers": wish["servers"],
        "client_id": wish["name"],
        "group_id": wish["group"],
        "auto_offset_reset": "earliest",
        "session_timeout_ms": wish["session_ms"],
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "enable_auto_commit": wish["is_auto"],
        "auto_commit_interval_ms": COMMIT_MS,
    }
    if wish["instance"] is not None:
        settings["group_instance_id"] = wish["instance"]
    return settings


def read_confluent(wish: Mapping[str, Any], stop: Stop) -> None:
    """With librdkafka."""
    settings = {key.replace("_", "."): value for key, value in common(wish).items()}
    settings["partition.assignment.strategy"] = wish["assignor"]
    settings["reconnect.backoff.max.ms"] = 200
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([wish["topic"]])
    is_dirty = False
    while not stop.is_set:
        messages = [it for it in consumer.consume(100, timeout=0.1) if it.error() is None]
        for message in messages:
            tell(message.partition(), message.offset())
        is_dirty = bool(messages) or is_dirty
        if is_dirty and not wish["is_auto"]:
            try:
                consumer.commit(asynchronous=False)
                is_dirty = False
            except confluent_kafka.KafkaException as error:
                sys.stderr.write(f"commit: {error}\n")  # a rebalance: read again, or commit later
    consumer.close()


def read_kafka_python(wish: Mapping[str, Any], stop: Stop) -> None:
    """With kafka-python."""
    consumer = kafka.KafkaConsumer(
        wish["topic"],
        partition_assignment_strategy=[KAFKA_PYTHON[wish["assignor"]]],
        reconnect_backoff_max_ms=200,
        **common(wish),
    )
    is_dirty = False
    while not stop.is_set:
        batches = consumer.poll(KAFKA_PYTHON_POLL_MS)
        for records in batches.values():
            for record in records:
                tell(record.partition, record.offset)
        is_dirty = bool(batches) or is_dirty
        if is_dirty and not wish["is_auto"]:
            try:
                consumer.commit()
                is_dirty = False
            except KafkaError as error:
                sys.stderr.write(f"commit: {error}\n")
    consumer.close()


def read_aiokafka(wish: Mapping[str, Any], stop: Stop) -> None:
    """With aiokafka."""

    async def read() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            wish["topic"],
            partition_assignment_strategy=[AIOKAFKA[wish["assignor"]]],
            **common(wish),
        )
        await consumer.start()
        is_dirty = False
        while not stop.is_set:
            batches = await consumer.getmany(timeout_ms=100)
            for records in batches.values():
                for record in records:
                    tell(record.partition, record.offset)
            is_dirty = bool(batches) or is_dirty
            if is_dirty and not wish["is_auto"]:
                try:
                    await consumer.commit()
                    is_dirty = False
                except AioKafkaError as error:
                    sys.stderr.write(f"commit: {error}\n")
        await consumer.stop()

    asyncio.run(read())


class Tell(RebalanceListener):
    """Prints which partitions are kprod's; a line comes before a poll's records."""

    def on_assigned(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """Print those that it gets."""
        del consumer
        tell_all("assigned", partitions)

    def on_revoked(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """Print those that it gives up."""
        del consumer
        tell_all("revoked", partitions)

    def on_lost(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """Print those that may be another's already."""
        del consumer
        tell_all("revoked", partitions)


def read_kprod(wish: Mapping[str, Any], stop: Stop) -> None:
    """With kprod."""
    settings = {**common(wish), "partition_assignment_strategy": wish["assignor"]}
    with Consumer(reconnect_backoff_max_ms=200, **settings) as consumer:
        consumer.subscribe(wish["topic"], Tell())
        is_dirty = False
        while not stop.is_set:
            records = consumer.poll(0.1, 100)
            for record in records:
                tell(record.partition, record.offset)
            is_dirty = bool(records) or is_dirty
            if is_dirty and not wish["is_auto"]:
                is_dirty = not has_committed(consumer)


def has_committed(consumer: Consumer) -> bool:
    """Commit; False if a rebalance has come before it."""
    try:
        consumer.commit()
    except KprodError as error:
        sys.stderr.write(f"commit: {error}\n")
        return False
    return True


READERS = {
    "kprod": read_kprod,
    "confluent": read_confluent,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
}


def main() -> None:
    """Read as the one argument says."""
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    wish = json.loads(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    READERS[wish["client"]](wish, Stop())


if __name__ == "__main__":
    main()
