"""Apache Kafka goes down and comes back under a producer: nothing is lost, doubled or moved."""

import threading
from collections.abc import Iterator

import pytest

from kprod import Producer
from kprod.model import RecordMetadata
from tests.consumer.reading import read_topic
from tests.plugins.kafka_nodes import KafkaNodes

LIMIT_S = 90.0
PARTITIONS = (0, 1, 2)
WINDOW = 12
"""Maximum number of a partition's records in flight."""


class Stream:
    """Numbered records to one partition; each acknowledgement sends the next.

    Thread-safety: `begin` once, then the producer's sender thread; `acknowledged` is for anyone.
    """

    def __init__(self, producer: Producer, topic: str, partition: int) -> None:
        """Send nothing yet."""
        self.outcomes: list[RecordMetadata | BaseException | None] = []
        self.acknowledged = threading.Semaphore(0)
        self.is_ending = False
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._next = 0

    def begin(self) -> None:
        """Fill the window."""
        for _ in range(WINDOW):
            self._send()

    def await_more(self) -> None:
        """Wait until a record that is not sent yet would be acknowledged."""
        for _ in range(2 * WINDOW):
            assert self.acknowledged.acquire(timeout=LIMIT_S)

    def _send(self) -> None:
        number = self._next
        self._next += 1
        self._producer.send(
            self._topic,
            b"%d" % number,
            partition=self._partition,
            on_delivery=self._delivered,
        )

    def _delivered(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        self.outcomes.append(metadata or error)
        self.acknowledged.release()
        if not self.is_ending:
            self._send()


@pytest.fixture
def streams(kafka: KafkaNodes) -> Iterator[list[Stream]]:
    """Streams to all partitions of a topic, running; the producer is closed when they are used."""
    topic = kafka.create_topic("restarts", partitions=len(PARTITIONS))
    with Producer(
        bootstrap_servers=kafka.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=1,
        retry_backoff_ms=20,
        reconnect_backoff_max_ms=200,
    ) as producer:
        running = [Stream(producer, topic, partition) for partition in PARTITIONS]
        for stream in running:
            stream.begin()
        yield running


@pytest.mark.slow
def test_restarts_lose_and_double_nothing(kafka: KafkaNodes, streams: list[Stream]) -> None:
    """After a SIGKILL and a SIGTERM every acknowledged record is in the log once, at its offset."""
    for stop in (kafka.kill, kafka.stop):
        for stream in streams:
            stream.await_more()
        stop(1)
        kafka.restart(1)
    for stream in streams:
        stream.await_more()
        stream.is_ending = True
    assert streams[0]._producer.flush(LIMIT_S) == 0

    log: dict[int, list[bytes | None]] = {partition: [] for partition in PARTITIONS}
    for record in read_topic(kafka.bootstrap_servers, "restarts"):
        assert record.offset == len(log[record.partition])
        log[record.partition].append(record.value)
    for partition, stream in zip(PARTITIONS, streams, strict=True):
        assert log[partition] == [b"%d" % number for number in range(len(stream.outcomes))]
        places = [
            outcome.offset if isinstance(outcome, RecordMetadata) else outcome
            for outcome in stream.outcomes
        ]
        assert places == list(range(len(places)))
