"""librdkafka's batches read by kprod, and kprod's by librdkafka, through the embedded broker."""

from collections.abc import Iterator
from itertools import starmap
from typing import TypeAlias

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.model import Codec
from kprod.record.reader import read_records
from tests.broker.polling import polled
from tests.record import strategies

Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
LIMIT_S = 30.0
pytestmark = pytest.mark.may_leak("clients that all tests here share connect in the first")

# A timestamp of 0 means "now" to librdkafka, and one ahead of the clock is rejected by brokers.
rows = st.lists(
    st.tuples(
        st.integers(min_value=1, max_value=1_700_000_000_000),
        strategies.contents,
        strategies.contents,
        strategies.headers,
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker; a topic for each direction and codec."""
    names = [f"{sender}-{codec.name}" for sender in ("theirs", "ours") for codec in Codec]
    with EmbeddedCluster(1, dict.fromkeys(names, 1)) as running:
        yield running


def _header(name: str, content: str | bytes | None) -> tuple[str, bytes | None]:
    assert not isinstance(content, str)
    return name, content


class Theirs:
    """A librdkafka producer, and what it has sent so far."""

    def __init__(self, cluster: EmbeddedCluster, codec: Codec) -> None:
        self._cluster = cluster
        self._topic = f"theirs-{codec.name}"
        self._batch_count = 0
        self._record_count = 0
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": codec.name.lower(),
            "queue.buffering.max.ms": 0,
        }
        self._producer = confluent_kafka.Producer(settings)

    def send(self, sent: list[Row]) -> list[Row]:
        """Send rows; return what kprod finds in the log behind those of earlier calls."""
        for timestamp_ms, key, value, headers in sent:
            self._producer.produce(
                self._topic, value, key, timestamp=timestamp_ms, headers=[*headers]
            )
        assert self._producer.flush(LIMIT_S) == 0
        (batches,) = self._cluster.batches(self._topic).values()
        records = list(read_records(b"".join(batches[self._batch_count :])))
        self._batch_count = len(batches)
        start, self._record_count = self._record_count, self._record_count + len(records)
        assert [record.offset for record in records] == [*range(start, self._record_count)]
        return [
            (record.timestamp_ms, record.key, record.value, tuple(record.headers))
            for record in records
        ]

    def close(self) -> None:
        """End it."""
        self._producer.close()


class Ours:
    """A kprod producer, and a librdkafka consumer behind it."""

    def __init__(self, cluster: EmbeddedCluster, codec: Codec) -> None:
        self._topic = f"ours-{codec.name}"
        servers = cluster.bootstrap_servers
        self._producer = Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=0)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(self._topic, 0, 0)])

    def send(self, sent: list[Row]) -> list[Row]:
        """Send rows; return what librdkafka consumes."""
        for timestamp_ms, key, value, headers in sent:
            self._producer.send(self._topic, value, key, headers=headers, timestamp_ms=timestamp_ms)
        assert self._producer.flush(LIMIT_S) == 0
        messages = [polled(self._consumer, LIMIT_S) for _ in sent]
        return [
            (
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(starmap(_header, message.headers() or ())),
            )
            for message in messages
        ]

    def close(self) -> None:
        """End both."""
        self._consumer.close()
        self._producer.close()


@pytest.fixture(scope="module")
def theirs(cluster: EmbeddedCluster) -> Iterator[dict[int, Theirs]]:
    """A librdkafka producer per codec."""
    producers: dict[int, Theirs] = {codec: Theirs(cluster, codec) for codec in Codec}
    yield producers
    for producer in producers.values():
        producer.close()


@pytest.fixture(scope="module")
def ours(cluster: EmbeddedCluster) -> Iterator[dict[int, Ours]]:
    """A kprod producer and a librdkafka consumer per codec."""
    pairs: dict[int, Ours] = {codec: Ours(cluster, codec) for codec in Codec}
    yield pairs
    for pair in pairs.values():
        pair.close()


@given(sent=rows)
def test_we_read_their_batches(theirs: dict[int, Theirs], sent: list[Row]) -> None:
    """Five codecs, headers, nulls, timestamps: as librdkafka was given them."""
    for codec in Codec:
        assert theirs[codec].send(sent) == sent


@given(sent=rows)
def test_they_read_our_batches(ours: dict[int, Ours], sent: list[Row]) -> None:
    """Five codecs, headers, nulls, timestamps: as kprod was given them."""
    for codec in Codec:
        assert ours[codec].send(sent) == sent
