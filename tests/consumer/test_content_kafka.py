"""The consumer reads what Apache Kafka stores, according to Kafka's own tool and to a peer.

Records of every shape in each codec, logs that began in the old formats, interleaved transactions,
and a log that was cut by an unclean election.
"""

import contextlib
import random
import re
from typing import Any

import confluent_kafka
import pytest

from kprod import Codec, Consumer, Producer, TopicPartition
from kprod.errors import LogTruncated
from tests.consumer.reading import LIMIT_S, poll_count, poll_until
from tests.consumer.test_consumer_kafka import read_by_peer, shown
from tests.oracle import message_set
from tests.plugins.kafka_nodes import KafkaNodes

COUNT = 4_000  # for each of five codecs
OLD_FORMATS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
"""Magic and codec; LZ4 came with magic 0 in a broken format."""

OLD_COUNT = 200  # in each set
ALPHABET = "abc xyz äß €漢😀\t'\"\\"


def odd_record(rng: random.Random, number: int) -> dict[str, Any]:
    """A record of any shape: null, empty, text, bytes that are no text, headers that repeat."""

    def content() -> bytes | None:
        kind = rng.randrange(6)
        if kind < 2:
            return (None, b"")[kind]
        if kind == 2:  # bytes that are no text
            return bytes(rng.choice((0xFF, 0xFE, 0x80, 0x41)) for _ in range(rng.randrange(30)))
        return "".join(rng.choices(ALPHABET, k=rng.randrange(rng.choice((3, 40, 800))))).encode()

    return {
        "key": content(),
        "value": content(),
        "headers": [(f"h{rng.randrange(3)}", content()) for _ in range(rng.choice((0, 0, 1, 4)))],
        "timestamp_ms": 1_700_000_000_000 + number * 7 % 1_000,
    }


def text_of(content: bytes | None) -> str:
    """Bytes as Java prints them."""
    return "null" if content is None else content.decode(errors="replace")


def as_dumped(record: Any) -> tuple[int, int, int, int, str, str]:
    """A record's fields as DumpLogSegments prints them."""
    key, value = record.key, record.value
    sizes = [-1 if it is None else len(it) for it in (key, value)]
    headers = ",".join(header.key for header in record.headers)
    content = f" key: {text_of(key)}" if key is not None else ""
    content += f" payload: {text_of(value)}" if value is not None else ""
    return record.offset, record.timestamp_ms, *sizes, headers, content


DUMPED = re.compile(
    r"\| offset: (\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)"
    r"(?: sequence: -?\d+)?(?: headerKeys: \[(.*?)\])?((?: key: .*?)?(?: payload: .*)?)"
)


def dumped(kafka: KafkaNodes, topic: str) -> list[tuple[int, int, int, int, str, str]]:
    """Records that Kafka's tool reads of a topic's one partition."""
    text = kafka.tools.dump_log_segments(kafka.log_files(topic, 0))
    lines = [line for line in text.split("\n") if line.startswith("| offset")]
    found = []
    for line in lines:
        match = DUMPED.fullmatch(line)
        assert match is not None, line
        numbers = [int(it) for it in match.groups()[:4]]
        found.append((*numbers, match[5] or "", match[6]))
    return found  # type: ignore[return-value]


def read(kafka: KafkaNodes, topic: str, count: int, **settings: Any) -> list[Any]:
    """Read that number of records with the consumer."""
    with Consumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", **settings
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return poll_count(consumer, count)


def test_20_000_odd_records(kafka: KafkaNodes) -> None:
    """Equal to the records sent, to DumpLogSegments' output, and to confluent-kafka's records."""
    topic, rng = kafka.create_topic("odd-content"), random.Random(11)
    sent: list[dict[str, Any]] = []
    for codec in Codec:
        with Producer(
            bootstrap_servers=kafka.bootstrap_servers, compression_type=codec, batch_size=20_000
        ) as producer:
            for number in range(COUNT):
                sent.append(odd_record(rng, number))
                producer.send(topic, partition=0, **sent[-1])
            assert producer.flush(LIMIT_S) == 0
    found = read(kafka, topic, len(sent))
    assert len(found) == len(sent) == 20_000
    assert [
        {
            "key": it.key,
            "value": it.value,
            "headers": [tuple(header) for header in it.headers],
            "timestamp_ms": it.timestamp_ms,
        }
        for it in found
    ] == sent
    assert [shown(it) for it in found] == read_by_peer(kafka.bootstrap_servers, topic, len(found))
    assert [as_dumped(it) for it in found] == dumped(kafka, topic)


def old_rows(magic: int, base: int) -> list[message_set.RecordInput]:
    """Nulls, empty ones and others, in a format without headers; magic 0 has no time either."""
    return [
        (
            base + index,
            1_500_000_000_000 + index if magic else -1,
            (None, b"", b"k%d" % index)[index % 3],
            (b"v%d" % index, b"", None, b"x" * index)[index % 4],
        )
        for index in range(OLD_COUNT)
    ]


def test_old_formats(kafka: KafkaNodes) -> None:
    """A log of magic 0 and 1 in each codec of their time continues, as in an upgraded cluster.

    Kafka 4 takes no such records from producers, but serves those that are in a log.
    """
    topic = kafka.create_topic("old-content")
    with Consumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.end_offsets([TopicPartition(topic, 0)])  # answered once the log is there
    (segment,) = kafka.log_files(topic, 0)
    old: list[message_set.RecordInput] = []
    sets: list[bytes] = []
    for magic, codec in OLD_FORMATS:
        rows = old_rows(magic, len(old))
        old += rows
        sets += [
            message_set.encode(rows[begin : begin + 50], magic=magic, codec=codec)
            for begin in range(0, OLD_COUNT, 50)
        ]
    kafka.kill(1)
    segment.write_bytes(b"".join(sets))
    for index in (*segment.parent.glob("*.index"), *segment.parent.glob("*.timeindex")):
        index.unlink()
    kafka.restart(1)
    kafka.wait_in_sync(topic)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        offset = producer.send(topic, b"new", partition=0).result(LIMIT_S).offset
    assert offset == len(old)
    found = read(kafka, topic, len(old) + 1)
    assert [(it.offset, it.timestamp_ms, it.key, it.value) for it in found[:-1]] == old
    assert (found[-1].offset, found[-1].value) == (offset, b"new")
    assert [it.leader_epoch is None for it in found] == [True] * len(old) + [False]
    assert read_by_peer(kafka.bootstrap_servers, topic, len(found)) == [
        (offset, max(timestamp_ms, 0), *rest)  # 0 is the peer's "no timestamp"
        for offset, timestamp_ms, *rest in map(shown, found)
    ]


def test_interleaved_transactions_of_a_peer(kafka: KafkaNodes) -> None:
    """Three transactional producers of a peer at once, each in another codec: as its reader."""
    topic, rng = kafka.create_topic("interleaved"), random.Random(5)
    peers = [
        confluent_kafka.Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "transactional.id": f"interleaved-{codec}",
                "compression.type": codec,
            }
        )
        for codec in ("none", "lz4", "zstd")
    ]
    for peer in peers:
        peer.init_transactions(30)
    committed: set[bytes] = set()
    for number in range(5):
        sent: list[list[bytes]] = [[], [], []]
        for peer in peers:
            peer.begin_transaction()
        for step in range(6):
            index = rng.randrange(3)
            sent[index].append(b"%d-%d-%d" % (number, index, step))
            peers[index].produce(topic, sent[index][-1], partition=0)
            peers[index].flush(30)
        for index in rng.sample(range(3), 3):
            if rng.random() < 0.5:
                peers[index].commit_transaction(30)
                committed.update(sent[index])
            else:
                peers[index].abort_transaction(30)
    assert 0 < len(committed) < 30
    key = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign([key])
        end = consumer.end_offsets([key])[key]
        found = poll_until(consumer, lambda _: consumer.position(key) >= end)
    assert {it.value for it in found} == committed
    assert len(found) == len(committed)
    assert [shown(it) for it in found] == read_by_peer(
        kafka.bootstrap_servers, topic, len(committed), **{"isolation.level": "read_committed"}
    )


def test_a_truncation_after_an_unclean_election(kafka_trio: KafkaNodes) -> None:
    """The new leader lacks records that were read: one reader goes back to the cut, one raises."""
    topic = kafka_trio.create_topic(
        "unclean",
        replication=2,
        settings={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
    )
    view = kafka_trio.partitions(topic, broker=1)[0]
    leader = view.leader_id
    (follower,) = set(view.replica_ids) - {leader}
    servers = kafka_trio.bootstrap_servers
    with contextlib.ExitStack() as stack:
        producer = stack.enter_context(
            Producer(bootstrap_servers=servers, metadata_max_age_ms=1_000)
        )
        readers = [
            stack.enter_context(
                Consumer(
                    bootstrap_servers=servers, auto_offset_reset=policy, metadata_max_age_ms=1_000
                )
            )
            for policy in ("earliest", "none")
        ]
        for reader in readers:
            reader.assign([(topic, 0)])
            reader.seek((topic, 0), 0)

        def send(values: range) -> None:
            for number in values:
                producer.send(topic, b"%d" % number, partition=0).result(LIMIT_S)

        stack.callback(kafka_trio.restart, follower)
        stack.callback(kafka_trio.restart, leader)
        send(range(10))
        kafka_trio.kill(follower)
        send(range(10, 15))
        for reader in readers:
            assert [int(it.value) for it in poll_count(reader, 15)] == list(range(15))
        kafka_trio.kill(leader)
        kafka_trio.restart(follower)
        resetting, strict = readers
        with pytest.raises(LogTruncated, match="read up to offset 15") as raised:
            poll_until(strict, bool)
        assert (raised.value.topic, raised.value.partition) == (topic, 0)
        assert (raised.value.offset, raised.value.end_offset) == (15, 10)
        strict.seek((topic, 0), 10)
        poll_until(resetting, lambda _: resetting.position((topic, 0)) == 10)
        send(range(100, 103))
        for reader in readers:
            found = poll_count(reader, 3)
            assert [(it.offset, it.value) for it in found] == [
                (10, b"100"),
                (11, b"101"),
                (12, b"102"),
            ]
            metrics = reader.metrics()["consumer-fetch-manager-metrics"]
            assert metrics["truncation-total"] == 1
