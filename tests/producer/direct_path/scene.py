"""A producer with the direct path over a simulated network, in virtual time.

The application acts while the sender is in its selector's sleep, as another thread would.

Thread-safety: one thread, whose system threads are replaced meanwhile.
"""

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import kprod
from kprod import threads
from kprod.clock import ManualClock, wait_by
from kprod.network.connection_context import NetworkIO
from kprod.network.selector import EVENT_NONE
from kprod.network.socket_wait import SocketWait
from kprod.network.transport import Transport
from tests.producer.stage import Stage
from tests.producer.virtual_threads import VirtualThread, VirtualThreads

ROUND_TRIP_MS = 20
HOUR_MS = 3_600_000


class SimulatedWait(SocketWait):
    """Lets virtual time pass until the transport is readable."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._is_woken = False
        self.watched: Any = None
        self.waits_s: list[float] = []

    def watch(self, transport: Transport) -> None:
        """See `SocketWait.watch`."""
        self.watched = transport

    def wait(self, timeout_s: float) -> None:
        """See `SocketWait.wait`."""
        self.waits_s.append(timeout_s)
        assert self._scene.watched_events(self.watched) == EVENT_NONE
        ends_ms = self._scene.clock.now_ms() + round(timeout_s * 1_000)
        while self._scene.clock.now_ms() < ends_ms and not self._is_woken:
            self._scene.act_as_brokers()
            if self.watched.from_peer:
                break
            self._scene.clock.advance(1)
        self._is_woken = False

    def wake(self) -> None:
        """See `SocketWait.wake`."""
        self._is_woken = True

    def close_after_fork(self) -> None:
        """See `SocketWait.close_after_fork`."""


class Scene(Stage):
    """A producer with the direct path open, whose last record was waited for."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.threads = VirtualThreads(clock)
        self.threads.turn = self._turn
        threads.use(self.threads)
        wait_by(clock)
        self.acts: list[Callable[[], object]] = []  # each runs during one sleep
        self.round_trip_ms = ROUND_TRIP_MS
        self.socket_wait: SimulatedWait
        super().__init__(
            clock=clock,
            is_threaded=True,
            max_block_ms=HOUR_MS,
            request_timeout_ms=HOUR_MS,
            delivery_timeout_ms=HOUR_MS,
        )
        assert self.send_plainly(b"before").result(1).offset == 0
        self.run()

    def send_plainly(self, value: bytes) -> kprod.RecordFuture:
        """Send without a callback, which would be the sender's to call."""
        return self.producer.send("orders", value, partition=0)

    def watched_events(self, transport: object) -> int:
        """The events that the selector watches a transport for."""
        return self.selector.watched[id(transport)][1]

    @property
    def sender_thread(self) -> VirtualThread:
        """The sender's thread, which has not run."""
        (sender,) = self.threads.started
        return sender

    def in_a_sleep(self, act: Callable[[], object]) -> None:
        """Let the application act while the sender sleeps, and the sender wake afterwards."""
        self.acts.append(act)
        self.run(1)
        assert not self.acts

    def act_as_brokers(self) -> None:
        """Take requests in; answer those that are old enough."""
        self._serve()
        while self.held and self.clock.now_ms() >= self.sent_at_ms[-1] + self.round_trip_ms:
            self.take().answer()

    def _turn(self) -> None:
        self.act_as_brokers()
        self.run(1)

    def _make_io(self) -> NetworkIO:
        self.selector.pauses = True
        select = self.selector.select

        def select_while_others_act(timeout_ms: int) -> list[tuple[Any, int]]:
            if timeout_ms and self.acts:
                self.acts.pop()()
            return select(timeout_ms)

        self.selector.select = select_while_others_act  # type: ignore[method-assign]
        self.socket_wait = SimulatedWait(self)
        return super()._make_io()._replace(make_socket_wait=lambda: self.socket_wait)


@contextlib.contextmanager
def opened_scene() -> Generator[Scene]:
    """Make a scene; at the end the system's threads come back."""
    try:
        made = Scene()
        yield made
        Stage.opened.remove(made)
        made.threads.turn = made.sender_thread.run  # it finds that it is to stop
        assert made.close() == 0
    finally:
        threads.use(threads.SYSTEM)
        wait_by(None)
