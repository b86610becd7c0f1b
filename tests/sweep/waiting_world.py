"""The world of `CipherWorld` with an application that waits for each record: on the direct path."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from kprod import threads
from kprod.clock import wait_by
from kprod.errors import KprodError
from tests.sim.client_io import SimSocketWait
from tests.sim.scheduler import MS, Actor, Scheduler
from tests.sim.sim_threads import SimThreads
from tests.sweep import cipher_world
from tests.sweep.cipher_world import CipherWorld, Delivered, Fault


class _CipherWait(SimSocketWait):
    """Waits for the transport below TLS, and counts its waits."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.waits = 0

    def watch(self, transport: Any) -> None:
        """See `SocketWait.watch`."""
        super().watch(transport._below)

    def wait(self, timeout_s: float) -> None:
        """See `SocketWait.wait`."""
        self.waits += 1
        super().wait(timeout_s)


class WaitingWorld(CipherWorld):
    """One run; each record is sent when the one before has its outcome.

    Attributes:
        wait: Waits at the socket for responses.
    """

    is_threaded = True

    @property
    def waits(self) -> int:
        """How often the application waited at the socket."""
        return self.wait.waits

    def _make_socket_wait(self) -> SimSocketWait:
        self.wait = _CipherWait(self._scheduler)
        return self.wait

    def _begin(self) -> None:
        Actor(self._scheduler, self._send_all)

    def _end(self) -> None:
        Actor(self._scheduler, lambda: self._producer.close(0))

    def _send_all(self) -> None:
        current = self._scheduler.current
        assert current is not None
        while len(self._futures) < cipher_world.RECORDS:
            try:
                future = self._producer.send("orders", b"%d" % len(self._futures))
            except KprodError as error:
                self._errors.append(error)
                current.sleep(self._scheduler.now_ns + cipher_world.AGAIN_MS * MS)
                continue
            self._futures.append(future)
            future.exception()


def run_waiting(fault: Fault, settings: dict[str, Any]) -> tuple[Delivered, int]:
    """Run one fault; returns the results and the number of waits at the socket."""
    with _virtual_threads() as scheduler:
        world = WaitingWorld(fault, settings, scheduler=scheduler)
        return world.run(), world.waits


@contextmanager
def _virtual_threads() -> Generator[Scheduler]:
    scheduler = Scheduler(cipher_world.SEED)
    ended: list[BaseException] = []
    threads.use(SimThreads(scheduler, cipher_world.SEED, ended.append))
    wait_by(scheduler.clock)
    try:
        yield scheduler
    finally:
        wait_by(None)
        threads.use(threads.SYSTEM)
    assert not ended
