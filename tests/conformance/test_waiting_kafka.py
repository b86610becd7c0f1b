"""Late responses and prompt ones: other clients wait at the embedded broker as at Apache Kafka.

Nothing here measures speed. Late means not before the wait that the client asked for. Prompt means
that the response comes although that wait is longer than the test.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Protocol

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.clock import SystemClock
from kprod.protocol.api import ApiKey
from tests.broker import polling
from tests.conformance.batches import GOOD
from tests.conformance.sides import Side
from tests.plugins.kafka_nodes import KafkaNodes

LATE_MS = 300
ENDLESS_MS = 100_000
LIMIT_S = 50.0
"""Less than `ENDLESS_MS`."""

ENOUGH_BYTES = 1_000
ROUND_S = 0.01

Connect = Callable[[int], confluent_kafka.Consumer]


class Followed(Protocol):
    """A topic with one partition, whose followers can be held back."""

    bootstrap_servers: str
    topic: str

    def hold(self) -> None:
        """Let a follower copy nothing."""

    def has_record(self) -> bool:
        """Whether something is in the leader's log."""

    def release(self) -> None:
        """Let all followers copy."""


class EmbeddedFollowed:
    """In the embedded broker."""

    topic = "followed"

    def __init__(self, cluster: EmbeddedCluster) -> None:
        """Make the topic."""
        cluster.create_topic(self.topic, 1)
        self.bootstrap_servers = cluster.bootstrap_servers
        self._cluster = cluster
        view = cluster.describe(self.topic, 0)
        self._follower = next(it for it in view.replicas if it != view.leader_id)

    def hold(self) -> None:
        """See `Followed`."""
        self._cluster.set_follower_lag(self.topic, 0, self._follower, None)

    def has_record(self) -> bool:
        """See `Followed`."""
        return self._cluster.describe(self.topic, 0).log_end_offset > 0

    def release(self) -> None:
        """See `Followed`."""
        self._cluster.set_follower_lag(self.topic, 0, self._follower, 0)
        self._cluster.catch_up(self.topic, 0, self._follower)


class KafkaFollowed:
    """In Apache Kafka."""

    def __init__(self, nodes: KafkaNodes) -> None:
        """Make the topic."""
        self.topic = nodes.create_topic("waiting-followed")
        view = nodes.partitions(self.topic, broker=1)[0]
        self._leader = view.leader_id
        self._follower = next(it for it in view.replica_ids if it != self._leader)
        self.bootstrap_servers = nodes.address_of(self._leader)
        self._nodes = nodes

    def hold(self) -> None:
        """See `Followed`."""
        self._nodes.pause(self._follower)

    def has_record(self) -> bool:
        """See `Followed`."""
        files = self._nodes.log_files(self.topic, 0, broker=self._leader)
        return any(path.stat().st_size for path in files)

    def release(self) -> None:
        """See `Followed`."""
        self._nodes.resume(self._follower)


@pytest.fixture(params=["embedded", "kafka"])
def followed(request: pytest.FixtureRequest, kafka_trio: KafkaNodes) -> Generator[Followed]:
    """Each broker's in turn.

    Yields:
        A topic with three replicas.
    """
    if request.param == "kafka":
        yield KafkaFollowed(kafka_trio)
        kafka_trio.wait_until_ready()
        kafka_trio.wait_in_sync("waiting-followed")
        return
    with EmbeddedCluster(brokers=3, config=EmbeddedConfig()) as cluster:
        yield EmbeddedFollowed(cluster)


@pytest.fixture
def connect(side: Side) -> Generator[Connect]:
    """Make consumers that want `ENOUGH_BYTES`, or as many as there are after some wait.

    Yields:
        Takes the wait in milliseconds.
    """
    with contextlib.ExitStack() as stack:

        def consumer(wait_ms: int) -> confluent_kafka.Consumer:
            settings = {
                "bootstrap.servers": side.address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.min.bytes": ENOUGH_BYTES,
                "fetch.wait.max.ms": wait_ms,
                "socket.timeout.ms": 2 * ENDLESS_MS,
            }
            made = confluent_kafka.Consumer(settings)
            stack.callback(made.close)
            return made

        yield consumer


def polled(consumer: confluent_kafka.Consumer) -> bytes | str | None:
    """The next message's value."""
    return polling.polled(consumer, LIMIT_S).value()


def test_too_little_comes_late(side: Side, connect: Connect) -> None:
    """A consumer that wants more than there is gets it when its wait is over, not before."""
    target = side.create("late")
    side.produce(target, GOOD)
    clock = SystemClock()
    consumer = connect(LATE_MS)
    started_ms = clock.now_ms()
    consumer.assign([confluent_kafka.TopicPartition(target.topic, 0, 0)])

    assert polled(consumer) == b"v0"
    assert clock.now_ms() - started_ms >= LATE_MS - 1  # two clocks, each rounded


def test_enough_comes_at_once(side: Side, connect: Connect) -> None:
    """However long the consumer would wait."""
    target = side.create("prompt")
    for _ in range(ENOUGH_BYTES // len(GOOD) + 1):
        side.produce(target, GOOD)
    consumer = connect(ENDLESS_MS)
    consumer.assign([confluent_kafka.TopicPartition(target.topic, 0, 0)])

    assert polled(consumer) == b"v0"


def test_what_makes_it_enough_ends_the_wait(side: Side, connect: Connect) -> None:
    """Records arrive one by one at a waiting consumer, and leave together when they suffice."""
    target = side.create("growing")
    consumer = connect(ENDLESS_MS)
    consumer.assign([confluent_kafka.TopicPartition(target.topic, 0, 0)])
    count = ENOUGH_BYTES // len(GOOD) + 1
    for _ in range(count - 1):
        message = consumer.poll(0)
        assert message is None
        side.produce(target, GOOD)
    assert consumer.poll(0.05) is None
    side.produce(target, GOOD)

    assert [polled(consumer) for _ in range(3 * count)] == [b"v0", b"v1", b"v2"] * count


def test_a_fetch_that_finds_nothing_is_answered_when_its_wait_is_over(side: Side) -> None:
    """Empty, and not before."""
    target = side.create("empty")
    clock = SystemClock()
    started_ms = clock.now_ms()
    (topic,) = side.fetch(target, 0, min_bytes=1, max_wait_ms=LATE_MS)["responses"]

    assert clock.now_ms() - started_ms >= LATE_MS - 1
    assert bytes(topic["partitions"][0]["records"]) == b""


def test_a_fetch_waits_without_holding_up_others(side: Side) -> None:
    """Another connection is served meanwhile, and what it brings is the response."""
    target = side.create("meanwhile")
    entry = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    body = {
        "max_wait_ms": ENDLESS_MS,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": target.topic, "partitions": [entry]}],
    }
    with side.connect() as waiting:
        waiting.send(ApiKey.FETCH, 11, body)
        assert side.produce(target, GOOD)["base_offset"] == 0
        (topic,) = waiting.read(ApiKey.FETCH, 11)["responses"]

    assert len(topic["partitions"][0]["records"]) == len(GOOD)


async def send_while_held(followed: Followed) -> tuple[bool, int]:
    """Send with acks=all while a follower is stopped, then resume it.

    Returns:
        Whether the send was done while it was held, and its offset.
    """
    producer = AIOKafkaProducer(bootstrap_servers=followed.bootstrap_servers, acks="all")
    await producer.start()
    try:
        await producer.partitions_for(followed.topic)
        followed.hold()
        try:
            future = await producer.send(followed.topic, b"value", partition=0)
            while not followed.has_record():
                await asyncio.wait({future}, timeout=ROUND_S)
            was_done = future.done()
        finally:
            followed.release()
        return was_done, (await asyncio.wait_for(future, LIMIT_S)).offset
    finally:
        await producer.stop()


@pytest.mark.slow
def test_acks_all_waits_for_the_followers(followed: Followed) -> None:
    """A send of aiokafka is done when every in-sync replica has the record, not before."""
    assert asyncio.run(send_while_held(followed)) == (False, 0)


def test_acks_all_is_prompt_when_nobody_lags(side: Side) -> None:
    """With nothing to wait for, aiokafka's sends are done one by one, and readable at once."""
    target = side.create("prompt-acks")

    async def send_all() -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=side.address, acks="all", linger_ms=0)
        await producer.start()
        try:
            ends: list[int] = []
            for _ in range(3):
                sent = producer.send_and_wait(target.topic, b"value", partition=0)
                assert (await asyncio.wait_for(sent, LIMIT_S)).offset == len(ends)
                ends.append(side.offset(target, -1)["offset"])
            return ends
        finally:
            await producer.stop()

    assert asyncio.run(send_all()) == [1, 2, 3]
