"""A partition's directory that was written here is opened and served by Apache Kafka."""

import shutil
from pathlib import Path

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.consumer.reading import read_topic
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes

RECORDS = 400
SETTINGS = {"internal.segment.bytes": "4000", "index.interval.bytes": "100"}


def written(directory: Path) -> list[bytes]:
    """Write a partition in several segments; its values."""
    values = [b"value-%d" % number for number in range(RECORDS)]
    with EmbeddedCluster(1, data_dir=directory) as cluster:
        cluster.create_topic("orders", 1, settings=SETTINGS)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            for value in values:
                producer.send("orders", value).result(30)
    return values


def read(nodes: KafkaNodes) -> list[bytes]:
    """All values that the broker serves."""
    return [record.value for record in read_topic(nodes.bootstrap_servers, "orders")]


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_kafka_serves_a_partition_that_was_written_here(
    kafka_artifacts: Artifacts, tmp_path: Path, is_killed: bool
) -> None:
    """By the recipe: beside Kafka's own `partition.metadata`, with a recovery point.

    As if Kafka had been killed: without the indexes, with a torn tail, and checked from its start.
    """
    values = written(tmp_path / "here")
    source = tmp_path / "here" / "orders-0"
    assert len(list(source.glob("*.log"))) > 3
    with KafkaNodes(kafka_artifacts) as nodes:
        nodes.create_topic("orders")
        nodes.stop(1)
        (segment,) = nodes.log_files("orders", 0)
        partition = segment.parent
        for path in partition.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in source.iterdir():
            is_index = path.suffix in {".index", ".timeindex"}
            if path.name != "partition.metadata" and not (is_killed and is_index):
                shutil.copy(path, partition / path.name)
        checkpoint = partition.parent / "recovery-point-offset-checkpoint"
        if is_killed:
            last = max(partition.glob("*.log"))
            last.write_bytes(last.read_bytes() + b"\0\0torn")
            (partition.parent / ".kafka_cleanshutdown").unlink()
        checkpoint.write_text(f"0\n1\norders 0 {0 if is_killed else RECORDS}\n")
        nodes.restart(1)

        assert read(nodes) == values
        with Producer(bootstrap_servers=nodes.bootstrap_servers) as producer:
            assert producer.send("orders", b"more").result(30).offset == RECORDS
        assert read(nodes) == [*values, b"more"]
