"""The brokers that clients race against, each in a process of its own.

`mock` is librdkafka's mock cluster, the cheapest broker there is: it keeps the last batches only
and replicates nothing. `embedded` is kprod's own, with a cap on what it keeps. `kafka` is Apache
Kafka, one node. Each round gets a topic of its own, deleted afterwards where that is possible, so
that no round finds caches or disks as another left them.

The process of `mock` and `embedded` prints its address, then obeys lines: `create NAME PARTITIONS`
and `delete NAME`; it ends with its standard input.

Thread-safety: one thread, the caller's.
Source: librdkafka 2.16, rdkafka_mock.h; the layout of confluent-kafka's Producer object (a Python
object's head, then the `rd_kafka_t*`), through which its mock cluster is reached.
"""

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("mock", "kafka", "embedded")
ANSWER_S = 30.0
RETAINED_BYTES = 64 << 20  # each partition of the embedded broker
KAFKA_TOPIC = {
    # Deleted topics leave the disk before the next round is over.
    "file.delete.delay.ms": "1000",
}


@dataclass(slots=True)
class RaceBroker:
    """A broker that runs.

    Attributes:
        name: One of `NAMES`.
        address: `host:port`.
        create: Creates a topic with a name and a number of partitions.
        delete: Deletes a topic, or does nothing where none can be deleted.
        pid: Process of `mock` and `embedded`; 0 for Apache Kafka.
    """

    name: str
    address: str
    create: Callable[[str, int], object]
    delete: Callable[[str], object]
    pid: int = field(default=0)
    topic_count: int = field(default=0)

    @contextlib.contextmanager
    def topic(self, label: str, partitions: int = 1) -> Generator[str]:
        """Make a topic for one round.

        Args:
            label: Part of its name.
            partitions: At least 1.

        Yields:
            Its name.
        """
        self.topic_count += 1
        name = "".join(c if c.isalnum() else "-" for c in f"race {self.topic_count} {label}")
        self.create(name, partitions)
        try:
            yield name
        finally:
            self.delete(name)

    def end_offset(self, topic: str, partitions: int = 1) -> int:
        """Count what the broker has taken.

        Args:
            topic: Created by `topic`, so that its offsets began at 0.
            partitions: Number of the topic's partitions.

        Returns:
            The sum of the partitions' end offsets.
        """
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.address, "group.id": "race", "log_level": 0}
        )
        try:
            return sum(
                consumer.get_watermark_offsets(
                    confluent_kafka.TopicPartition(topic, partition), ANSWER_S, cached=False
                )[1]
                for partition in range(partitions)
            )
        finally:
            consumer.close()


@contextlib.contextmanager
def running(name: str, address: str | None = None) -> Generator[RaceBroker]:
    """Start a broker.

    Args:
        name: One of `NAMES`.
        address: Address of a running Apache Kafka; None starts one.

    Yields:
        The broker, ready.
    """
    with _kafka(address) if name == "kafka" else _served(name) as broker:
        yield broker


@contextlib.contextmanager
def _served(name: str) -> Generator[RaceBroker]:
    child = subprocess.Popen(
        [sys.executable, "-c", f"import race_brokers; race_brokers.serve_{name}()"],
        cwd=ROOT / "benchmarks",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    asked, answered = child.stdin, child.stdout

    def ask(line: str) -> None:
        asked.write(f"{line}\n")
        asked.flush()
        if answered.readline().strip() != "done":
            raise RuntimeError(f"the {name} broker's process ended at {line!r}")

    try:
        yield RaceBroker(
            name,
            answered.readline().strip(),
            create=lambda topic, partitions: ask(f"create {topic} {partitions}"),
            delete=lambda topic: ask(f"delete {topic}"),
            pid=child.pid,
        )
    finally:
        asked.close()
        child.wait(ANSWER_S)
        answered.close()


@contextlib.contextmanager
def _kafka(address: str | None) -> Generator[RaceBroker]:
    sys.path.insert(0, str(ROOT))
    from tests.plugins import kafka_wire  # noqa: PLC0415 - of the source tree
    from tests.plugins.kafka import artifacts_or_reason  # noqa: PLC0415
    from tests.plugins.kafka_nodes import KafkaNodes  # noqa: PLC0415
    from tests.plugins.kafka_settings import STRONG_JAVA  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        if address is None:
            found = artifacts_or_reason()
            if isinstance(found, str):
                raise SystemExit(found)
            nodes = stack.enter_context(KafkaNodes(found, java_flags=STRONG_JAVA))
            address = nodes.bootstrap_servers

        def create(topic: str, partitions: int) -> None:
            kafka_wire.create_topic(
                address,
                topic,
                partitions=partitions,
                replication=1,
                settings=KAFKA_TOPIC,
                timeout_s=ANSWER_S,
            )

        yield RaceBroker(
            "kafka",
            address,
            create=create,
            delete=lambda topic: kafka_wire.delete_topics(address, [topic], timeout_s=ANSWER_S),
        )


def serve_mock(brokers: int = 1) -> None:
    """Run librdkafka's mock cluster until standard input ends.

    Args:
        brokers: At least 1.
    """
    owner = confluent_kafka.Producer({"test.mock.num.brokers": brokers, "log_level": 0})
    library = _librdkafka()
    handle = ctypes.c_void_p.from_address(id(owner) + object.__basicsize__)
    cluster = library.rd_kafka_handle_mock_cluster(handle)

    def create(topic: str, partitions: int) -> None:
        code = library.rd_kafka_mock_topic_create(
            ctypes.c_void_p(cluster), topic.encode(), partitions, 1
        )
        if code:
            raise RuntimeError(topic, code)

    addresses = library.rd_kafka_mock_cluster_bootstraps(ctypes.c_void_p(cluster)).decode()
    _obey(addresses, create, lambda _: None)  # it cannot delete a topic, and keeps 5 MB of each


def serve_embedded() -> None:
    """Run kprod's embedded broker until standard input ends."""
    sys.path.insert(0, str(ROOT))
    from kprod.broker import EmbeddedCluster, EmbeddedConfig  # noqa: PLC0415 - of the source tree

    config = EmbeddedConfig(retention_bytes=RETAINED_BYTES, default_replication_factor=1)
    with EmbeddedCluster(brokers=1, config=config) as cluster:
        _obey(cluster.bootstrap_servers, cluster.create_topic, cluster.delete_topic)


def _obey(
    address: str, create: Callable[[str, int], object], delete: Callable[[str], object]
) -> None:
    print(address, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["create", topic, partitions]:
                create(topic, int(partitions))
            case ["delete", topic]:
                delete(topic)
            case _:
                raise ValueError(line)
        print("done", flush=True)


def _librdkafka() -> Any:  # noqa: ANN401 - a library's functions have the types given here
    """The library that confluent-kafka has loaded already."""
    mapped = Path("/proc/self/maps").read_text("utf-8").split()
    library = ctypes.CDLL(next(path for path in mapped if "librdkafka" in path))
    library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library
