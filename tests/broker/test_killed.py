"""`kprod broker --data` killed under load: every acknowledged record is there, once.

kprod and confluent-kafka produce to it all the time, with acks=all; in half of the runs each batch
is synced before it is acknowledged.
"""

import collections
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import confluent_kafka
import pytest

import kprod
from kprod.broker import EmbeddedCluster

PARTITIONS = 2
LIMIT_S = 60.0
AT_LEAST = 300
SETTINGS = {"flush.messages": "1"}


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(directory: Path, port: int) -> Generator[subprocess.Popen[str]]:
    """The command, once it serves; killed at the end."""
    command = [sys.executable, "-m", "kprod.cli", "broker", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--data", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline().strip().endswith(f":{port}"), "it does not serve"
            yield running
        finally:
            running.kill()
            running.communicate(timeout=LIMIT_S)


class Load:
    """Two producers that send numbered records until they are told to end.

    Thread-safety: `acknowledged` is read after `end`.
    """

    def __init__(self, port: int) -> None:
        """Begin."""
        self.acknowledged: set[bytes] = set()
        self._settled = threading.Semaphore(0)
        self._servers = f"127.0.0.1:{port}"
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=it) for it in (self._kprod, self._confluent)]
        for thread in self._threads:
            thread.start()

    def await_more(self, count: int) -> None:
        """Wait until this many more records were acknowledged."""
        for _ in range(count):
            assert self._settled.acquire(timeout=LIMIT_S)

    def end(self) -> None:
        """Wait until all records are settled."""
        self._ending.set()
        for thread in self._threads:
            thread.join(2 * LIMIT_S)
            assert not thread.is_alive()

    def _numbers(self, prefix: bytes) -> Iterator[tuple[int, bytes]]:
        for number in itertools.count():
            if self._ending.wait(0.001):
                return
            yield number % PARTITIONS, b"%s-%d" % (prefix, number)

    def _kprod(self) -> None:
        with kprod.Producer(bootstrap_servers=self._servers, acks="all") as producer:
            futures = {}
            for partition, value in self._numbers(b"kprod"):
                futures[value] = producer.send("orders", value, partition=partition)
                futures[value].add_done_callback(lambda _: self._settled.release())
            producer.flush(timeout=LIMIT_S)
            self.acknowledged |= {
                value for value, future in futures.items() if future.exception(LIMIT_S) is None
            }

    def _confluent(self) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "acks": "all"}
        )
        delivered: list[bytes] = []

        def note(error: object, message: confluent_kafka.Message) -> None:
            value = message.value()
            if error is None and value is not None:
                delivered.append(value)
                self._settled.release()

        for partition, value in self._numbers(b"confluent"):
            producer.produce("orders", value, partition=partition, on_delivery=note)
            producer.poll(0)
        assert producer.flush(LIMIT_S) == 0
        self.acknowledged |= set(delivered)


def killed(directory: Path, *, kills: int, settings: dict[str, str]) -> int:
    """Kill a broker under load, check its log, and return the number of records in it."""
    with EmbeddedCluster(1, data_dir=directory) as cluster:
        cluster.create_topic("orders", PARTITIONS, settings=settings)
    port = free_port()
    load: Load | None = None
    for number in range(kills + 1):
        with serving(directory, port) as running:
            load = load or Load(port)
            load.await_more(AT_LEAST + 37 * (number % 5))
            if number == kills:
                load.end()
            running.send_signal(signal.SIGKILL)
    assert load is not None
    with EmbeddedCluster(1, data_dir=directory) as cluster:
        records = itertools.chain.from_iterable(cluster.records("orders").values())
        counts = collections.Counter(bytes(it.value or b"") for it in records)
    assert load.acknowledged
    assert {b"kprod", b"confluent"} == {it.partition(b"-")[0] for it in load.acknowledged}
    assert load.acknowledged - counts.keys() == set(), "an acknowledged record is gone"
    twice = [value for value in load.acknowledged if counts[value] > 1]
    assert twice == []
    return sum(counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["unsynced", "synced"])
def test_a_killed_broker_has_every_acknowledged_record_once(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    """One kill of each kind."""
    assert killed(tmp_path / "kept", kills=1, settings=settings) > 100


@pytest.mark.long
@pytest.mark.timeout(600)  # eleven starts of a process
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["unsynced", "synced"])
def test_ten_kills_take_no_acknowledged_record(tmp_path: Path, settings: dict[str, str]) -> None:
    """Twenty in all."""
    assert killed(tmp_path / "kept", kills=10, settings=settings) > 1_000
