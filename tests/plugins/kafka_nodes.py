"""A real Apache Kafka on loopback: one node, or three brokers and a controller.

It serves tests, benchmarks and a person's shell alike, so nothing here knows of pytest.

Nothing outlives the run. A small shell process holds the other end of a pipe; when this process
ends, however it ends, the shell kills every node and removes the directory. (A parent-death signal
would follow the thread that started a node, and macOS has none.)

Invariants.
    The watch's latest line names exactly the processes that live.
    A node keeps its ports and its directory from its first start until `close`.
    Processes are signalled by their own id, never by name.

Thread-safety: one thread at a time.

Source: Kafka 4.3.1 in KRaft mode, run with OpenJDK 17.
"""

import base64
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.plugins import kafka_wire
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_node import KafkaFailedError, KafkaNode
from tests.plugins.kafka_settings import (
    CONTROLLER_ID,
    QUICK_JAVA,
    PortLease,
    cluster_settings,
    node_settings,
    properties,
)
from tests.plugins.kafka_tools import KafkaTools

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 5.0
PAUSE_S = 0.05
"""Between two questions to a node that is not ready."""

WATCH = """
while read -r line; do pids=$line; done
if [ -n "$pids" ]; then
  kill -9 $pids
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 $pids || break; sleep 0.1; done
fi 2>/dev/null
rm -rf "$1"
"""
"""Each line it reads names all processes that live; at the end of its input it ends them. It waits
for them too, bounded, so that none still writes into the directory that it removes."""


class _Wanted(NamedTuple):
    """The awaited state in a broker's view."""

    text: str
    topics: Sequence[str]
    is_met_by: Callable[[kafka_wire.ClusterView], bool]


class KafkaNodes:
    """A cluster with storage in a temporary directory.

    Thread-safety: one thread at a time.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        auto_create_topics: bool = False,
        java_flags: Sequence[str] = QUICK_JAVA,
    ) -> None:
        """Choose ports and a directory; nothing runs yet.

        Args:
            artifacts: Jars and Java.
            brokers: 1 is broker and controller in one process; more have a controller apart.
            settings: Settings of all nodes, by Kafka's dotted names; they override those of
                `kafka_settings`.
            auto_create_topics: Whether asking for a topic makes it.
            java_flags: `QUICK_JAVA`, or `STRONG_JAVA` where the broker's speed is measured.
        """
        self.tools = KafkaTools(artifacts, java_flags)
        self._lease = PortLease(brokers + 1)
        *broker_ports, self._controller_port = self._lease.ports
        self._ports = dict(enumerate(broker_ports, start=1))
        self._settings = cluster_settings(brokers, auto_create_topics=auto_create_topics)
        self._settings.update(settings or {})
        self.directory = Path(tempfile.mkdtemp(prefix="kprod-kafka-"))
        self._nodes: dict[int, KafkaNode] = {}
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start, and wait until every broker answers.

        Returns:
            Itself.
        """
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything and remove the directory."""
        self.close()

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Ids of all brokers, running or not."""
        return tuple(self._ports)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, as clients take them."""
        return ",".join(map(self.address_of, self._ports))

    def address_of(self, broker: int) -> str:
        """Give a broker's address, which it keeps over restarts.

        Args:
            broker: Its id.

        Returns:
            `host:port`.
        """
        return f"127.0.0.1:{self._ports[broker]}"

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Format storage, start all nodes, wait until each broker sees all of them.

        Args:
            timeout_s: Longest wait for the brokers.

        Returns:
            Itself.

        Raises:
            KafkaFailedError: A node ended or was not ready in time; nothing is left running.
        """
        try:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", WATCH, "kprod-kafka-watch", str(self.directory)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            self._format()
            for node in self._nodes.values():
                node.start()
            self._tell_watch()
            self.wait_until_ready(timeout_s=timeout_s)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all nodes and remove their directory; calling it again does nothing.

        They are killed: brokers that hand over to nobody take long, and their data goes anyway.
        """
        for node in self._nodes.values():
            node.signal(signal.SIGKILL)
        for node in self._nodes.values():
            node.await_end(STOP_TIMEOUT_S)
        self._nodes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._watch is not None:
            self._watch.communicate(b"\n")
            self._watch = None
        self._lease.close()

    def kill(self, broker: int) -> None:
        """End a broker by SIGKILL, as a crash would; its data stays."""
        self._end(broker, signal.SIGKILL)

    def stop(self, broker: int) -> None:
        """End a broker by SIGTERM, so that it hands over its partitions; its data stays."""
        self._end(broker, signal.SIGTERM)

    def pause(self, broker: int) -> None:
        """Freeze a broker by SIGSTOP: its connections stay open and silent."""
        self._nodes[broker].signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """Let a frozen broker continue."""
        self._nodes[broker].signal(signal.SIGCONT)

    def restart(self, broker: int, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a broker again on its port and its data, and wait until the cluster has it back.

        Args:
            broker: Killed, stopped or running; a running one is stopped first.
            timeout_s: Longest wait.

        Raises:
            KafkaFailedError: It was not ready in time.
        """
        self.stop(broker)
        self._nodes[broker].start()
        self._tell_watch()
        self.wait_until_ready(timeout_s=timeout_s)

    def wait_until_ready(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until each running broker sees all running brokers.

        Args:
            timeout_s: Longest wait for each of them.

        Raises:
            KafkaFailedError: The time was over, or a broker ended.
        """
        running = set(self._running)
        for broker in sorted(running):
            wanted = _Wanted(f"sees {running}", (), lambda view: view.broker_ids >= running)
            self._await_view(broker, wanted, timeout_s)

    def node(self, node_id: int) -> KafkaNode:
        """Give a node's process, for its id, its log and its memory.

        Args:
            node_id: A broker's, or `CONTROLLER_ID` where the controller stands apart.

        Returns:
            The same object over all restarts.
        """
        return self._nodes[node_id]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic and wait until every running broker sees it led and in sync.

        Args:
            name: Name of the topic.
            partitions: At least 1.
            replication: The number of brokers by default.
            settings: The topic's own, by Kafka's dotted names.

        Returns:
            The name.
        """
        kafka_wire.create_topic(
            self.address_of(self._running[0]),
            name,
            partitions=partitions,
            replication=replication or len(self._ports),
            settings=settings or {},
            timeout_s=START_TIMEOUT_S,
        )
        self.wait_in_sync(name)
        return name

    def delete_topics(self, *names: str) -> None:
        """Delete topics; their files go a little later."""
        kafka_wire.delete_topics(
            self.address_of(self._running[0]), names, timeout_s=START_TIMEOUT_S
        )

    def partitions(self, topic: str, *, broker: int) -> Mapping[int, kafka_wire.PartitionView]:
        """Ask one broker for its view of a topic.

        Args:
            topic: Its name.
            broker: Broker to ask; each has its own view.

        Returns:
            Leader, replicas and in-sync set by partition; empty if it knows no such topic.
        """
        address = self.address_of(broker)
        return kafka_wire.metadata(address, (topic,), timeout_s=ANSWER_TIMEOUT_S).topics.get(
            topic, {}
        )

    def wait_in_sync(self, *topics: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every running broker says that all replicas of the topics are in sync.

        One broker's word is not enough: after a SIGKILL the others list the dead one until its
        session ends.

        Args:
            topics: Their names.
            timeout_s: Longest wait for each broker.

        Raises:
            KafkaFailedError: The time was over, or a broker ended.
        """

        def is_in_sync(view: kafka_wire.ClusterView) -> bool:
            views = [view.topics.get(topic) for topic in topics]
            return all(each and all(p.is_in_sync for p in each.values()) for each in views)

        for broker in self._running:
            self._await_view(
                broker, _Wanted(f"sees {topics} in sync", topics, is_in_sync), timeout_s
            )

    def log_files(self, topic: str, partition: int, *, broker: int = 1) -> list[Path]:
        """Find the segments of a partition in a broker's storage.

        Args:
            topic: Its name.
            partition: Its index.
            broker: Id of the broker with the storage; it need not run.

        Returns:
            All `.log` files in the order of their offsets, which is how tools must be given them.
        """
        return sorted(
            (self.directory / f"node-{broker}" / "log" / f"{topic}-{partition}").glob("*.log")
        )

    @property
    def _running(self) -> list[int]:
        """Those that can answer: not ended, not frozen."""
        nodes = ((broker, self._nodes[broker]) for broker in self._ports)
        return [broker for broker, node in nodes if node.pid is not None and not node.is_frozen]

    def _format(self) -> None:
        cluster_id = _random_id()
        ids = [*self._ports, *([CONTROLLER_ID] if len(self._ports) > 1 else [])]
        for node_id in ids:
            self._prepare(node_id)
        first = self._nodes[1].directory
        settings = str(first / "node.properties")
        self.tools.run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", settings)
        for node_id in ids[1:]:  # a start of Java saved for each
            copied = shutil.copytree(first / "log", self._nodes[node_id].directory / "log")
            transaction_manager = {
                "version": "1",
                "cluster.id": cluster_id,
                "node.id": str(node_id),
                "directory.id": _random_id(),
            }
            (copied / "meta.properties").write_text(properties(transaction_manager), "utf-8")

    def _settings_of(self, node_id: int) -> Mapping[str, str]:
        """Give the settings that a node alone has, by Kafka's dotted names."""
        return node_settings(
            node_id,
            ports=self._ports,
            controller_port=self._controller_port,
            directory=self.directory / f"node-{node_id}",
        )

    def _prepare(self, node_id: int) -> None:
        directory = self.directory / f"node-{node_id}"
        directory.mkdir()
        path = directory / "node.properties"
        path.write_text(properties({**self._settings_of(node_id), **self._settings}), "utf-8")
        command = [*self.tools.java(log=directory / "node.log"), "kafka.Kafka", str(path)]
        self._nodes[node_id] = KafkaNode(node_id, directory, command)

    def _end(self, broker: int, number: signal.Signals) -> None:
        node = self._nodes[broker]
        node.signal(signal.SIGCONT)
        node.signal(number)
        node.await_end(STOP_TIMEOUT_S)
        self._tell_watch()

    def _tell_watch(self) -> None:
        pids = " ".join(str(node.pid) for node in self._nodes.values() if node.pid is not None)
        if self._watch is not None and self._watch.stdin is not None:
            self._watch.stdin.write(f"{pids}\n".encode())
            self._watch.stdin.flush()

    def _await_view(self, broker: int, wanted: _Wanted, timeout_s: float) -> None:
        address, node = self.address_of(broker), self._nodes[broker]
        deadline_s = time.monotonic() + timeout_s  # noqa: TID251 - processes live in real time
        last: object = "nothing"
        while True:
            try:
                last = view = kafka_wire.metadata(
                    address, wanted.topics, timeout_s=ANSWER_TIMEOUT_S
                )
                if wanted.is_met_by(view):
                    return
            except (OSError, kafka_wire.BrokerAnswerError) as error:
                last = error
            if not node.pause_while_alive(PAUSE_S) or time.monotonic() > deadline_s:  # noqa: TID251 - as above
                break
        raise KafkaFailedError(
            f"waited up to {timeout_s:g} s until broker {broker} at {address} {wanted.text}; "
            f"{'it runs' if node.pid else 'it has ended'}; last response: {last}\n{node.log_tail()}"
        )


def _random_id() -> str:
    # Kafka's form; a leading dash would look like an option to its tools.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
