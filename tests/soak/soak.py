"""A load for many minutes through proxies, with a fault now and then, and every record checked.

The brokers are a process of their own: `kprod broker`. Each is reached through a proxy, which
holds, resets and rejects connections; the brokers' process is stopped for moments, too.

Thread-safety: one `Soak` a thread; it has a sending thread of its own.
"""

import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import kprod
from kprod.clock import SystemClock
from kprod.config import NetworkSettings
from kprod.errors import KprodError
from kprod.model import RecordMetadata
from kprod.network.address_cursor import SocketAddress
from kprod.network.connection_context import NetworkIO, system_io
from kprod.network.transport import Transport
from kprod.producer.wiring import Environment
from tests.chaos.ledger import Ledger, Verdict
from tests.consumer.reading import read_topic
from tests.soak.gates import Sample, broken_gates
from tests.sweep.proxy import HOST, Proxy

TOPIC = "soak"
BROKERS = 3
BURST_S = 0.01
LOOK_S = 2.0
SETTLE_S = 4.0  # after a fault, until latency counts again
CLOSE_S = 60.0
START_S = 30.0
LATENCIES_MAX = 20_000  # per look
_NUMBER = struct.Struct(">iq")
_PADDING = b"x" * 88  # with the number, 100 bytes
_PORT = re.compile(r"127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """How long and how hard.

    Attributes:
        load_s: Duration of sending with faults.
        calm_s: Duration of sending without faults, afterwards.
        warm_up_s: At the beginning, not judged. Every broker hangs for a while then, as long
            as any fault lasts.
        rate: Records a second.
        partitions: Number of the topic's partitions.
        pause_s: Least and most seconds between two faults.
        fault_s: How long a fault lasts, at least and at most.
        seed: Seed of the faults.
    """

    load_s: float
    calm_s: float
    warm_up_s: float = 20.0
    rate: int = 20_000
    partitions: int = 6
    pause_s: tuple[float, float] = (5.0, 20.0)
    fault_s: tuple[float, float] = (0.2, 3.0)
    seed: int = 7


@dataclass(slots=True)
class SoakReport:
    """The results of a run.

    Attributes:
        samples: In order of time, the warm-up's too.
        verdict: The ledger's verdict.
        faults: How many of each kind.
        broken: Gates that do not hold.
        undelivered: The result of `close`.
    """

    samples: list[Sample]
    verdict: Verdict
    faults: dict[str, int]
    broken: list[str]
    undelivered: int

    def text(self) -> str:
        """A few lines for a person."""
        first, last = self.samples[0], self.samples[-1]
        verdict = self.verdict
        return (
            f"{verdict.sent:,} records in {last.at_s:.0f} s, faults {self.faults}\n"
            f"memory {first.rss_bytes / 2**20:.1f} to {last.rss_bytes / 2**20:.1f} MiB,"
            f" blocks {first.blocks} to {last.blocks},"
            f" descriptors {first.descriptors} to {last.descriptors},"
            f" threads {first.threads} to {last.threads}, p99 {last.p99_ms:.1f} ms at last\n"
            f"acknowledged {verdict.acknowledged:,}, possibly persisted"
            f" {verdict.possibly_persisted}, not persisted {verdict.not_persisted}, unresolved"
            f" {verdict.unresolved}, resolved twice {verdict.resolved_twice}\n"
            f"lost {verdict.lost}, misplaced {verdict.misplaced}, doubled {verdict.doubled},"
            f" out of order {verdict.out_of_order}, untrue {verdict.untrue}\n"
            f"gates: {self.broken or 'all hold'}"
        )


class Brokers:
    """The brokers' process, and a proxy for each broker."""

    def __init__(self, partitions: int) -> None:
        """Start them; `stop` ends them."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kprod.cli", "broker", "--brokers", str(BROKERS)),
                *("--topic", f"{TOPIC}:{partitions}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack = ExitStack()
        self.proxies: dict[int, Proxy] = {}
        try:
            for port in self._ports():
                self.proxies[port] = self._stack.enter_context(Proxy(port))
        except BaseException:
            self.stop()
            raise
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in self.proxies)

    def _ports(self) -> list[int]:
        assert self._process.stdout is not None
        ports: list[int] = []
        for line in self._process.stdout:
            ports += [int(port) for port in _PORT.findall(line)]
            if len(set(ports)) >= BROKERS:
                return sorted(set(ports))
        raise RuntimeError("the brokers did not start")

    def open_io(self, settings: NetworkSettings) -> NetworkIO:
        """Make a client's I/O whose connections lead through the proxies."""
        io = system_io(settings)

        def connect(address: SocketAddress) -> Transport:
            return io.connect(address._replace(port=self.proxies[address.port].port))

        return io._replace(connect=connect)

    def pause(self, is_paused: bool) -> None:
        """Stop the process as a debugger does, or let it continue."""
        self._process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    def stop(self) -> None:
        """End the process and the proxies."""
        self._stack.close()
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(START_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Latencies:
    """Milliseconds from send to acknowledgement of some records, since the last look."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value_ms: float) -> None:
        """Keep one, unless there are enough."""
        if len(self._values) < LATENCIES_MAX:
            self._values.append(value_ms)

    def take_p99(self) -> float:
        """Return the 99th percentile and begin again; NaN if there is none."""
        values, self._values = sorted(self._values), array("d")
        return values[len(values) * 99 // 100] if values else float("nan")


class Soak:
    """One run."""

    def __init__(self, plan: SoakPlan) -> None:
        """Prepare; nothing runs yet."""
        self._plan = plan
        self._clock = SystemClock()
        self._ledger = Ledger(plan.partitions)
        self._latencies = Latencies()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._sent = 0
        self._faults: dict[str, int] = {}
        self._disturbed_until_s = 0.0
        self._began_ms = 0

    def run(self) -> SoakReport:
        """Send, disturb, look, check."""
        brokers = Brokers(self._plan.partitions)
        try:
            return self._run(brokers)
        finally:
            brokers.stop()

    def _run(self, brokers: Brokers) -> SoakReport:
        plan = self._plan
        self._began_ms = self._clock.now_ms()
        producer = kprod.Producer(
            bootstrap_servers=brokers.bootstrap_servers,
            client_id="soak",
            linger_ms=5,
            request_timeout_ms=5_000,
            environment=Environment(io=brokers.open_io),
        )
        threads = [
            threading.Thread(target=self._guarded, args=(partial(self._send, producer),)),
            threading.Thread(target=self._guarded, args=(partial(self._disturb, brokers),)),
        ]
        for thread in threads:
            thread.start()
        samples: list[Sample] = []
        try:
            while self._now_s() < plan.load_s + plan.calm_s and not self._errors:
                self._stop.wait(LOOK_S)
                samples.append(self._look())
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            undelivered = producer.close(CLOSE_S)
        if self._errors:
            raise self._errors[0]
        verdict = self._ledger.compare(self._logs(brokers))
        judged = [sample for sample in samples if sample.at_s >= plan.warm_up_s]
        broken = list(broken_gates(judged, plan.rate))
        if undelivered:
            broken.append(f"close returned {undelivered}")
        return SoakReport(judged, verdict, self._faults, broken, undelivered)

    def _guarded(self, work: Any) -> None:  # a call without arguments
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self._errors.append(error)

    def _now_s(self) -> float:
        return (self._clock.now_ms() - self._began_ms) / 1_000

    # The load.

    def _send(self, producer: kprod.Producer) -> None:
        source = random.Random(self._plan.seed + 1)
        due = 0.0
        while not self._stop.is_set():
            due = max(due, self._now_s() - 1.0) + BURST_S  # a second at most is caught up
            for _ in range(round(self._plan.rate * BURST_S)):
                self._send_one(producer, source.randrange(self._plan.partitions))
            self._stop.wait(max(due - self._now_s(), 0))

    def _send_one(self, producer: kprod.Producer, partition: int) -> None:
        number, settle = self._ledger.open(partition)
        value = _NUMBER.pack(partition, number) + _PADDING
        callback = settle if number % 16 else partial(self._settle_timed, self._now_s(), settle)
        try:
            producer.send(TOPIC, value, partition=partition, on_delivery=callback)
            self._sent += 1
        except KprodError as error:
            self._ledger.take_back(partition)
            self._ledger.reasons[f"send: {type(error).__name__}"] += 1

    def _settle_timed(
        self, began_s: float, settle: Any, metadata: RecordMetadata | None, error: Any
    ) -> None:
        self._latencies.add(1_000 * (self._now_s() - began_s))
        settle(metadata, error)

    # The faults.

    def _disturb(self, brokers: Brokers) -> None:
        source = random.Random(self._plan.seed)
        kinds = ("reset", "hold", "refuse", "pause")
        # The most records that ever wait, wait in a pause. Python's allocator keeps memory of that
        # size from then on, so memory is compared with what it is after the first one.
        self._stop.wait(self._plan.warm_up_s / 4)
        self._pause(brokers, self._plan.fault_s[1])
        while not self._stop.wait(source.uniform(*self._plan.pause_s)):
            if self._now_s() > self._plan.load_s:
                return
            kind = source.choice(kinds)
            lasts_s = source.uniform(*self._plan.fault_s)
            if kind == "pause":
                self._pause(brokers, lasts_s)
                continue
            self._note_fault(kind, lasts_s)
            proxy = source.choice(list(brokers.proxies.values()))
            if kind == "hold":
                proxy.hold(True)
            else:
                proxy.refuse(kind == "refuse")
                proxy.reset_all()
            self._stop.wait(lasts_s)
            proxy.hold(False)
            proxy.refuse(False)

    def _pause(self, brokers: Brokers, lasts_s: float) -> None:
        self._note_fault("pause", lasts_s)
        brokers.pause(True)
        self._stop.wait(lasts_s)
        brokers.pause(False)

    def _note_fault(self, kind: str, lasts_s: float) -> None:
        self._faults[kind] = self._faults.get(kind, 0) + 1
        self._disturbed_until_s = self._now_s() + lasts_s + SETTLE_S

    # The looks.

    def _look(self) -> Sample:
        now_s = self._now_s()
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        ledger_bytes = sum(
            entries.buffer_info()[1] * entries.itemsize for entries in self._ledger.entries
        )
        return Sample(
            at_s=now_s,
            rss_bytes=pages * os.sysconf("SC_PAGE_SIZE") - ledger_bytes,
            blocks=sys.getallocatedblocks(),
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            threads=threading.active_count(),
            sent=self._sent,
            p99_ms=self._latencies.take_p99(),
            is_disturbed=now_s - LOOK_S < self._disturbed_until_s,
        )

    def _logs(self, brokers: Brokers) -> Iterator[Sequence[tuple[int, int]]]:
        """(Offset, number) of each record, by partition."""
        for partition in range(self._plan.partitions):
            log = []
            for record in read_topic(brokers.bootstrap_servers, TOPIC, [partition]):
                found, number = _NUMBER.unpack_from(record.value or b"")
                assert found == partition, "a record of another partition"
                log.append((record.offset, number))
            yield log
