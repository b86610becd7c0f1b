"""The plugin's Kafka is real: clients reach it, its data outlives a crash, its tools read it."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.plugins import kafka_wire
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_node import KafkaFailedError
from tests.plugins.kafka_nodes import KafkaNodes

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def _produce(bootstrap_servers: str, topic: str, values: list[bytes]) -> list[int | None]:
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda _, message: offsets.append(message.offset())
        )
    assert producer.flush(30) == 0
    producer.close()
    return offsets


def test_a_client_produces_and_the_tools_find_its_batches_valid(kafka: KafkaNodes) -> None:
    """Records from confluent-kafka are in the segment, and DumpLogSegments calls it valid."""
    topic = kafka.create_topic("plugin-dump", partitions=2)
    assert _produce(kafka.bootstrap_servers, topic, [b"first", b"second"])
    files = [kafka.log_files(topic, partition) for partition in (0, 1)]
    dump = "".join(kafka.tools.dump_log_segments(paths) for paths in files)
    assert "payload: first" in dump
    assert "payload: second" in dump
    assert "isvalid: true" in dump
    assert "isvalid: false" not in dump


def test_unknown_topics_are_not_created_by_asking(kafka: KafkaNodes) -> None:
    """The default rejects them, so that a test meets the error."""
    assert kafka.partitions("plugin-unknown", broker=1) == {}
    assert kafka.partitions("plugin-unknown", broker=1) == {}


def test_a_rejected_topic_says_why(kafka: KafkaNodes) -> None:
    """The broker's words are in the error."""
    with pytest.raises(
        kafka_wire.BrokerAnswerError, match=r"CreateTopics plugin-wide: error code 38"
    ):
        kafka.create_topic("plugin-wide", replication=2)


def test_topics_come_and_go(kafka: KafkaNodes) -> None:
    """A topic has the partitions asked for, led and in sync, until it is deleted."""
    kafka.create_topic("plugin-brief", partitions=3, settings={"retention.ms": "1000"})
    views = kafka.partitions("plugin-brief", broker=1)
    assert sorted(views) == [0, 1, 2]
    assert all(view.is_in_sync for view in views.values())
    kafka.delete_topics("plugin-brief")
    with pytest.raises(kafka_wire.BrokerAnswerError, match="error code 3"):
        kafka.delete_topics("plugin-brief")


def test_a_failing_tool_shows_what_it_wrote(kafka: KafkaNodes) -> None:
    """Its exit code and its words are in the error."""
    with pytest.raises(KafkaFailedError, match=r"(?s)StorageTool gave exit code 1:.*no-such-file"):
        kafka.tools.run("kafka.tools.StorageTool", "info", "-c", "no-such-file")


def test_a_node_that_cannot_start_shows_its_log(kafka_artifacts: Artifacts) -> None:
    """A broker that ends at once is noticed at once, with the end of its log; nothing stays."""
    nodes = KafkaNodes(kafka_artifacts, settings={"num.io.threads": "0"})
    with pytest.raises(KafkaFailedError, match=r"(?s)num\.io\.threads"):
        nodes.start()
    assert not nodes.directory.exists()


def test_killed_brokers_come_back_with_their_data(kafka_trio: KafkaNodes) -> None:
    """After SIGKILL and restart the log continues where it was, and every in-sync set fills."""
    topic = kafka_trio.create_topic("plugin-trio", settings={"min.insync.replicas": "2"})
    assert _produce(kafka_trio.bootstrap_servers, topic, [b"before"]) == [0]
    leader = kafka_trio.partitions(topic, broker=1)[0].leader_id
    pid = kafka_trio.node(leader).pid
    kafka_trio.kill(leader)
    assert kafka_trio.node(leader).pid is None
    kafka_trio.restart(leader)
    kafka_trio.wait_in_sync(topic)
    assert kafka_trio.node(leader).pid not in {None, pid}
    assert _produce(kafka_trio.bootstrap_servers, topic, [b"after"]) == [1]


def test_a_frozen_broker_is_silent_and_resumes(kafka_trio: KafkaNodes) -> None:
    """Its connections stay open and nothing is answered, until it may continue."""
    address = kafka_trio.address_of(2)
    kafka_trio.pause(2)
    try:
        with pytest.raises(TimeoutError):
            kafka_wire.api_versions(address, timeout_s=0.2)
    finally:
        kafka_trio.resume(2)
    kafka_trio.wait_until_ready()
    assert kafka_wire.api_versions(address, timeout_s=30) > 20


def test_no_node_outlives_a_run_that_is_killed(kafka_artifacts: Artifacts) -> None:
    """When the process that started Kafka is killed, Java ends and its directory goes."""
    assert kafka_artifacts.java
    command = [sys.executable, "-m", "tests.plugins.kafka", "run"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        address = run.stdout.readline().decode().strip()
        directory = Path(run.stderr.readline().decode().split()[2].rstrip(";"))
        assert kafka_wire.api_versions(address, timeout_s=30) > 20
        run.kill()
        # The watch holds this end of the pipe too: it closes once the watch has done its work.
        run.stderr.read()
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError):
        kafka_wire.api_versions(address, timeout_s=5)
