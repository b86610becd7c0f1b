"""How a node of the tests is set up: its properties, its Java, its ports.

Pure functions, except for the ports, which are tried and locked.

Source: Kafka 4.3.1 broker settings; ip_local_port_range in ip(7).
"""

import errno
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LOG_SETTINGS = Path(__file__).parent.parent / "kafka" / "log4j2.properties"
CONTROLLER_ID = 100
"""Id of the controller that is a process of its own beside several brokers (from 1)."""

QUICK_JAVA = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Starts fast and stays small, at the price of a slower broker later."""

STRONG_JAVA = ("-Xms512m", "-Xmx1g", "-XX:+UseParallelGC")
"""For benchmarks: starts slower, then serves as fast as Java can."""

PORT_FIRST = 10_000
PORT_COUNT_MIN = 1_000
EPHEMERAL_PORTS = (32_768, 60_999) if Path("/proc").exists() else (49_152, 65_535)
"""Default port ranges of outgoing connections: Linux's, and IANA's and macOS's elsewhere."""


def node_settings(
    node_id: int, *, ports: Mapping[int, int], controller_port: int, directory: Path
) -> dict[str, str]:
    """Settings of one node, with nothing that a test would want to change.

    Args:
        node_id: 1 and up for brokers; `CONTROLLER_ID` for the controller apart.
        ports: Ports of all brokers, by id. A single one is its own controller.
        controller_port: Port of the quorum of one controller.
        directory: The node's own, for its log.

    Returns:
        Properties by Kafka's dotted names.
    """
    is_single = len(ports) == 1
    controller_id = next(iter(ports)) if is_single else CONTROLLER_ID
    listeners = []
    if node_id in ports:
        listeners.append(f"PLAINTEXT://127.0.0.1:{ports[node_id]}")
    if node_id == controller_id:
        listeners.append(f"CONTROLLER://127.0.0.1:{controller_port}")
    roles = ["broker"] * (node_id in ports) + ["controller"] * (node_id == controller_id)
    return {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        "controller.quorum.voters": f"{controller_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": ",".join(listeners),
        "log.dirs": str(directory / "log"),
    }


def cluster_settings(broker_count: int, *, auto_create_topics: bool) -> dict[str, str]:
    """Settings that all nodes share and a test may override.

    Args:
        broker_count: Internal topics are replicated to all.
        auto_create_topics: Whether asking for a topic makes it.

    Returns:
        Properties by Kafka's dotted names.
    """
    replication, in_sync = str(broker_count), str(max(1, broker_count - 1))
    return {
        "auto.create.topics.enable": str(auto_create_topics).lower(),
        "default.replication.factor": replication,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),  # the default takes 128 MiB at once
        "log.retention.ms": "-1",  # tests write records as old as they like
        # A broker serves once a heartbeat of it was answered, and one that was killed may come back
        # once its old session is over: the defaults of 2 s and 9 s are all waiting.
        "broker.heartbeat.interval.ms": "250",
        "broker.session.timeout.ms": "3000",
    }


def properties(settings: Mapping[str, str]) -> str:
    """Write a Java properties file.

    Args:
        settings: Names and values without line breaks.

    Returns:
        The file's text.
    """
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def java_command(
    java: str, class_path: str, *, flags: Sequence[str], log: Path | None
) -> list[str]:
    """Put together how Java is called, all but the class and its arguments.

    Args:
        java: The program.
        class_path: All jars.
        flags: Flags of the virtual machine.
        log: File for slf4j's messages; None drops them.

    Returns:
        The first part of the command.
    """
    logging = ["-Dlog4j2.level=OFF"]
    if log is not None:
        logging = [f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", f"-Dkprod.node.log={log}"]
    return [java, *flags, *logging, "-cp", class_path]


def quiet_ports(ephemeral: str | None) -> range:
    """Choose ports that no outgoing connection is given by chance.

    A client's connection could otherwise hold a stopped broker's port when it comes back.

    Args:
        ephemeral: Text of Linux's `ip_local_port_range`; None where there is none.

    Returns:
        Ports below the ephemeral ones, or above where there is no room; if there is none at all,
        every port from `PORT_FIRST` up.
    """
    low, high = (int(part) for part in ephemeral.split()) if ephemeral else EPHEMERAL_PORTS
    for ports in (range(PORT_FIRST, low), range(high + 1, 65_536)):
        if len(ports) >= PORT_COUNT_MIN:
            return ports
    return range(PORT_FIRST, 65_536)


class PortLease:
    """Free loopback ports, kept from other runs until closed.

    A port that was tried is free again at once, long before Java listens on it. So each lease also
    holds a lock file, which every other run of these tests respects.

    Thread-safety: one thread.
    """

    __slots__ = ("_locks", "ports")

    def __init__(self, count: int) -> None:
        """Take ports.

        Args:
            count: How many.

        Raises:
            OSError: There are not enough free ports.
        """
        self._locks: list[IO[str]] = []
        self.ports: list[int] = []
        limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
        candidates = quiet_ports(limits.read_text("utf-8") if limits.exists() else None)
        for port in random.sample(candidates, len(candidates)):
            if len(self.ports) == count:
                return
            self._try_take(port)
        self.close()
        raise OSError(errno.EADDRINUSE, f"fewer than {count} free ports in {candidates}")

    def close(self) -> None:
        """Give the ports back."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def _try_take(self, port: int) -> None:
        directory = Path(tempfile.gettempdir()) / f"kprod-ports-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
        lock = (directory / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            return
        self._locks.append(lock)
        self.ports.append(port)
