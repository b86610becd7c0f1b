"""A producer and a broker with TLS and a login, in virtual time; one connection has a fault.

The fault is at a byte of the ciphertext of one direction. OpenSSL draws its keys itself, so the
bytes differ from run to run, and their number by a few: signatures have no fixed length.
"""

import enum
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kprod import Producer, RecordFuture
from kprod.broker import BrokerSecurity, EmbeddedCluster, EmbeddedConfig
from kprod.errors import KprodError
from kprod.network.connection_context import NetworkIO
from kprod.producer.wiring import Environment
from tests.sim.client_io import Shortage, SimResolver, SimSelector, SimSocketWait
from tests.sim.draw import Draw
from tests.sim.link import Link, Pipe
from tests.sim.network import FIRST_PORT, SimNetwork
from tests.sim.scheduler import MS, Actor, Scheduler

RECORDS = 12
_PACE_MS = 2
AGAIN_MS = 20
_TURN_MS = 100
_LIMIT_MS = 300_000
SEED = 1


class Harm(enum.Enum):
    """The fault at the byte."""

    CLOSE = "the peer's end of the stream follows it"
    RESET = "the connection is reset at it"
    STALL = "nothing behind it arrives"
    FLIP = "one bit of it is flipped"


@dataclass(slots=True)
class Fault:
    """A harmed connection and the byte.

    Attributes:
        link: Number of the connection: 0 to the bootstrap address, 1 to the node.
        is_response: The bytes are the broker's, not the client's.
        at_byte: Index of the byte, from 0.
        harm: The fault.
        passed_bytes: Bytes of the direction that were written so far.
    """

    link: int
    is_response: bool
    at_byte: int
    harm: Harm
    passed_bytes: int = 0

    def watch(self, link: Link) -> None:
        """Harm a connection, if it is the one."""
        if link.number == self.link:
            pipe = link.down if self.is_response else link.up
            pipe.spoiler = partial(self._spoil, link, pipe)

    def _spoil(self, link: Link, pipe: Pipe, data: bytes) -> bytes:
        place = self.at_byte - self.passed_bytes
        self.passed_bytes += len(data)
        if not 0 <= place < len(data):
            return data
        if self.harm is Harm.FLIP:
            changed = data[place] ^ (1 << self.at_byte % 8)
            return data[:place] + bytes([changed]) + data[place + 1 :]
        link.stream.network.scheduler.after(0, partial(self._end, link, pipe))
        return data[:place]

    def _end(self, link: Link, pipe: Pipe) -> None:
        if self.harm is Harm.RESET:
            link.cut(loses=False)
        elif self.harm is Harm.CLOSE:
            pipe.end()
        pipe.is_swallowing = True


@dataclass(slots=True)
class Delivered:
    """The results of a run.

    Attributes:
        outcomes: Offset or error of each record; None if there is neither in five minutes.
        errors: Those of `send`, which was called again.
        log: Values in the log.
        passed_bytes: Bytes in the direction of the fault.
    """

    outcomes: list[int | KprodError | None]
    errors: list[KprodError] = field(default_factory=list)
    log: list[int] = field(default_factory=list)
    passed_bytes: int = 0


class CipherSelector(SimSelector):
    """Watches the transports below TLS."""

    def register(self, watched: Any, events: int, owner: Any) -> None:
        """Watch one."""
        super().register(watched._below, events, owner)

    def modify(self, watched: Any, events: int, owner: Any) -> None:
        """Watch for other events."""
        super().modify(watched._below, events, owner)

    def unregister(self, watched: Any) -> None:
        """Stop watching."""
        super().unregister(watched._below)


class _NoTap:
    """Looks at nothing: the bytes are ciphertext."""

    def count(self, name: str) -> None:
        """Do nothing."""

    def connected(self, link: Link) -> None:
        """Do nothing."""

    def wrote(self, link: Link, data: bytes) -> None:
        """Do nothing."""

    def read(self, link: Link, data: bytes) -> None:
        """Do nothing."""

    def shut(self, link: Link) -> None:
        """Do nothing."""


class CipherWorld:
    """One run.

    Args:
        fault: The fault of one connection.
        settings: More settings of the producer.
        scheduler: Scheduler of the run; None for another one.
    """

    is_threaded = False

    def __init__(
        self, fault: Fault, settings: dict[str, Any], *, scheduler: Scheduler | None = None
    ) -> None:
        self._fault = fault
        self._scheduler = scheduler or Scheduler(SEED)
        self._scheduler.event_limit = 200_000
        self._network = SimNetwork(SEED, self._scheduler, _NoTap())
        self._network.on_broker_work = self._broker_work
        self._step_ns = -1  # the present instant, if the broker is stepped in it
        self._due_ns = -1  # when it is stepped for its timers
        self._network.on_link = fault.watch
        self._cluster = EmbeddedCluster(
            1,
            {"orders": 1},
            config=EmbeddedConfig(auto_create_topics=False, port=FIRST_PORT),
            clock=self._scheduler.clock,
            network=self._network,
            security=BrokerSecurity(protocol="SASL_SSL", users={"alice": "alice-secret"}),
        )
        self._cluster.open()
        self._settings = settings
        self._producer = self._make_producer()
        self._futures: list[RecordFuture] = []
        self._errors: list[KprodError] = []
        self._is_over = False

    def run(self) -> Delivered:
        """Send the records, and wait for the outcome of each."""
        self._begin()
        start_ns = self._scheduler.now_ns
        while self._scheduler.now_ns < start_ns + _LIMIT_MS * MS and not self._is_settled:
            self._scheduler.run_until(self._scheduler.now_ns + _TURN_MS * MS)
        outcomes = [_outcome(future) for future in self._futures]
        self._is_over = True
        self._end()
        self._scheduler.run_until(self._scheduler.now_ns + 10 * _TURN_MS * MS)
        log = [int(it.value or b"") for it in self._cluster.records("orders")[0]]
        self._cluster.close()
        self._scheduler.end_actors()
        return Delivered(outcomes, self._errors, log, self._fault.passed_bytes)

    @property
    def _is_settled(self) -> bool:
        return len(self._futures) == RECORDS and all(it.done() for it in self._futures)

    def _begin(self) -> None:
        """Start the sender and the application."""
        Actor(self._scheduler, self._send_out)
        self._scheduler.after(0, self._send_one)

    def _end(self) -> None:
        """Close the producer."""
        self._producer._kprod.wake()

    def _make_producer(self) -> Producer:
        scheduler, shortage = self._scheduler, Shortage()
        selector = CipherSelector(
            scheduler, Draw(SEED, "ready"), shortage, can_pause=self.is_threaded
        )
        io = NetworkIO(
            selector=selector,
            resolver=SimResolver(scheduler, selector.wakeup),
            connect=partial(self._network.connect, 0, shortage),
            make_socket_wait=self._make_socket_wait,
        )
        wanted = self._cluster.client_settings(mechanism="PLAIN")
        wanted |= {"max_block_ms": 0, "linger_ms": 0, "batch_size": 100}
        wanted |= self._settings
        environment = Environment(
            clock=scheduler.clock,
            rng=random.Random(SEED),
            io=lambda _: io,
            is_threaded=self.is_threaded,
            admits_interpreted=True,
        )
        return Producer(wanted, environment=environment)

    def _make_socket_wait(self) -> SimSocketWait:
        return SimSocketWait(self._scheduler)

    def _send_out(self) -> None:
        while not self._is_over:
            self._producer._kprod.run_once(self._scheduler.clock.now_ms())
        self._producer.close(0)

    def _send_one(self) -> None:
        after_ms = _PACE_MS
        try:
            self._futures.append(self._producer.send("orders", b"%d" % len(self._futures)))
        except KprodError as error:
            self._errors.append(error)
            after_ms = AGAIN_MS
        if len(self._futures) < RECORDS:
            self._scheduler.after(after_ms * MS, self._send_one)

    def _broker_work(self) -> None:
        if self._step_ns != self._scheduler.now_ns:
            self._step_ns = self._scheduler.now_ns
            self._scheduler.after(0, self._step)

    def _step(self) -> None:
        self._step_ns = -1
        due_ms = self._cluster.step(self._scheduler.clock.now_ms())
        if due_ms is not None and due_ms * MS != self._due_ns:
            self._due_ns = due_ms * MS
            self._scheduler.at(self._due_ns, self._step)


def _outcome(future: RecordFuture) -> int | KprodError | None:
    if not future.done():
        return None
    error = future.exception(0)
    if error is None:
        return future.result(0).offset
    assert isinstance(error, KprodError), error
    return error
