"""Directories of an Apache Kafka that was closed, killed or still runs are taken over."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import confluent_kafka
import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.broker.rejection import DirectoryRejected
from kprod.record.blocks import ConsumerRecord
from tests.consumer.reading import read_topic
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = (
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
)
TOPICS = {"orders": 3, "users": 1}
LEFT_ALONE = ("__cluster_metadata-0", "__transaction_state-0")
SENT = 750
GROUP = "billing"
COMMITTED = 7
PAUSE_S = 0.1
CLEANED_WITHIN_S = 30.0
Content = dict[str, list[ConsumerRecord]]


def read(bootstrap_servers: str) -> Content:
    """All records of both topics, by partition."""
    content: Content = {}
    for topic in TOPICS:
        content[topic] = read_topic(bootstrap_servers, topic)
    return content


def fill(nodes: KafkaNodes) -> Content:
    """Records in several segments and all codecs, a compacted topic, transactions, and a group."""
    small = {"internal.segment.bytes": "4000", "index.interval.bytes": "100"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    nodes.create_topic("orders", partitions=3, settings=small)
    nodes.create_topic("users", settings=small | compact)
    for codec in CODECS:
        with Producer(
            bootstrap_servers=nodes.bootstrap_servers, compression_type=codec, batch_size=700
        ) as producer:
            for number in range(SENT // len(CODECS)):
                value = f"{codec} {number}".encode() * 3
                producer.send("orders", value, partition=number % 3, headers=[("codec", b"x")])
                key = b"k%d" % (number % 13) if number % 10 else value
                producer.send("users", None if number % 11 == 0 else value, key=key)
    address = nodes.address_of(1)
    transactional = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": "books"}
    )
    transactional.init_transactions()
    for ending in (transactional.commit_transaction, transactional.abort_transaction):
        transactional.begin_transaction()
        transactional.produce("orders", ending.__name__, partition=0)
        transactional.flush()
        ending()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": GROUP})
    position = confluent_kafka.TopicPartition("orders", 0, COMMITTED)
    consumer.commit(offsets=[position], asynchronous=False)
    consumer.close()
    await_compaction(nodes)
    return read(nodes.bootstrap_servers)


def await_compaction(nodes: KafkaNodes) -> None:
    """Wait until the compacted topic is clean but for its active segment."""
    node = nodes.node(1)
    checkpoint = node.directory / "log" / "cleaner-offset-checkpoint"
    waited_s = 0.0
    while waited_s < CLEANED_WITHIN_S:
        active = nodes.log_files("users", 0)[-1]
        if checkpoint.exists() and f"users 0 {int(active.stem)}" in checkpoint.read_text():
            return
        assert node.pause_while_alive(PAUSE_S), node.log_tail()
        waited_s += PAUSE_S
    pytest.fail(f"Kafka has not compacted: {node.log_tail()}")


def digests(directory: Path) -> dict[str, str]:
    """A digest of each file of a directory."""
    return {
        str(it.relative_to(directory)): hashlib.sha256(it.read_bytes()).hexdigest()
        for it in sorted(directory.rglob("*"))
        if it.is_file()
    }


def committed(bootstrap_servers: str, count: int) -> Iterator[bytes | None]:
    """Values that a member of the group reads, from the group's offset on."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )
    position = confluent_kafka.TopicPartition("orders", 0)
    (known,) = consumer.committed([position], timeout=30)
    assert known.offset == COMMITTED
    consumer.assign([known])
    for message in consumer.consume(count, timeout=30):
        assert message.error() is None
        yield message.value()
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_a_directory_of_kafkas_is_adopted(
    kafka_artifacts: Artifacts, tmp_path: Path, is_killed: bool
) -> None:
    """All records are equal, groups and appends continue, and a restart needs no adoption."""
    directory = tmp_path / "log"
    settings = {"log.cleaner.backoff.ms": "100"}
    with KafkaNodes(kafka_artifacts, settings=settings) as nodes:
        content = fill(nodes)
        if is_killed:
            nodes.kill(1)
        else:
            nodes.stop(1)
        shutil.copytree(nodes.node(1).directory / "log", directory)
    before = {name: digests(directory / name) for name in LEFT_ALONE}
    users = [record.offset for record in content["users"]]
    assert (users[0], users[-1]) == (0, SENT - 1)
    assert len(users) < SENT // 2, "nothing was compacted"

    with EmbeddedCluster(1, data_dir=directory, adopt=True) as cluster:
        assert cluster.loaded is not None
        assert bool(cluster.loaded.recovered_count) == is_killed
        assert cluster.loaded.cut_bytes == 0
        servers = cluster.bootstrap_servers
        assert read(servers) == content
        uncommitted = [it.value for it in content["orders"] if it.partition == 0]
        wanted = [it for it in uncommitted[COMMITTED:] if it != b"abort_transaction"]
        assert list(committed(servers, len(wanted))) == wanted
        appended = append(servers, content)

    with EmbeddedCluster(1, data_dir=directory) as cluster:
        assert read(cluster.bootstrap_servers) == appended
    assert {name: digests(directory / name) for name in LEFT_ALONE} == before


def append(servers: str, content: Content) -> Content:
    """Send one more record to each partition; all records."""
    with Producer(bootstrap_servers=servers) as producer:
        for topic, count in TOPICS.items():
            for index in range(count):
                offset = producer.send(topic, b"more", key=b"k", partition=index).result(30).offset
                last = max(it.offset for it in content[topic] if it.partition == index)
                assert last < offset <= last + 3  # markers have offsets, too
    appended = read(servers)
    for topic, count in TOPICS.items():
        assert len(appended[topic]) == len(content[topic]) + count
        assert [it for it in appended[topic] if it.value != b"more"] == content[topic]
    return appended


def test_a_directory_that_a_kafka_uses_is_rejected(kafka_artifacts: Artifacts) -> None:
    """Since it holds the lock; nothing of its files changes, and it serves on."""
    with KafkaNodes(kafka_artifacts) as nodes:
        nodes.create_topic("orders")
        send(nodes, 0)  # `partition.metadata` is written a little after the topic is there
        directory = nodes.node(1).directory / "log"
        names = {"meta.properties", "orders-0/partition.metadata"}
        before = {name: (directory / name).read_bytes() for name in names}
        for adopt in (False, True):
            with pytest.raises(DirectoryRejected, match="locked by another process"):
                EmbeddedCluster(1, data_dir=directory, adopt=adopt).open()
        assert {name: (directory / name).read_bytes() for name in names} == before
        assert not (directory / "kprod-metadata.json").exists()
        send(nodes, 1)


def send(nodes: KafkaNodes, offset: int) -> None:
    """Send the record that gets an offset."""
    with Producer(bootstrap_servers=nodes.bootstrap_servers) as producer:
        assert producer.send("orders", b"one").result(30).offset == offset
