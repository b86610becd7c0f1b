"""Runs the brokers of a cluster, in a thread or step by step.

Invariants.
    Only the stepping thread accesses the engine's state. After `close` no thread, socket or port is
    left.

Thread-safety: any thread after `start`; otherwise one thread at a time.
"""

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from kprod.broker.engine import Engine
from kprod.broker.inbox import Inbox
from kprod.broker.sockets import Network, SocketNetwork
from kprod.clock import Clock
from kprod.errors import ClosedError

T = TypeVar("T")


class ClusterRunner:
    """The implementation of `EmbeddedCluster`.

    Attributes:
        engine: The brokers and their state.
        is_open: Whether the ports were bound; stays True after `close`.
        is_closed: Whether `close` was called.
    """

    __slots__ = (
        "_clock",
        "_has_failed",
        "_inbox",
        "_network",
        "_stopping",
        "_thread",
        "_topics",
        "engine",
        "is_closed",
        "is_open",
    )

    def __init__(
        self,
        engine: Engine,
        *,
        topics: Mapping[str, int],
        clock: Clock,
        network: Network | None,
    ) -> None:
        """Create a runner without binding ports.

        Args:
            engine: The brokers, not opened.
            topics: Number of partitions by topic; created on `open`.
            clock: Monotonic and wall clock.
            network: The network layer; TCP by default.
        """
        self._clock = clock
        self._network = network
        self._topics = topics
        self.engine: Engine = engine
        self._inbox = Inbox(self.engine.wake)
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._has_failed = False
        self.is_open: bool = False
        self.is_closed: bool = False

    def open(self) -> None:
        """Implement `EmbeddedCluster.open`."""
        if self.is_closed:
            raise ClosedError("the embedded cluster is closed")
        if self.is_open:
            return
        self.is_open = True
        self.engine.open(self._network or SocketNetwork(), self._topics)

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            started = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(started,), name="kprod-broker", daemon=True
            )
            self._thread.start()
            started.wait()

    def step(self, now_ms: int) -> int | None:
        """Implement `EmbeddedCluster.step`."""
        self.engine.step(now_ms)
        # After the network's wakeup was consumed; a call could miss its wakeup otherwise.
        self._inbox.run_waiting()
        return self.engine.next_step_ms(now_ms)

    def call(self, function: Callable[[], T]) -> T:
        """Implement `EmbeddedCluster.call`."""
        return self._inbox.call(function)

    def close(self) -> None:
        """Implement `EmbeddedCluster.close`."""
        if self.is_closed:
            return
        self._end_thread()
        if self._has_failed:
            # After a failure, the next start must check the logs.
            self.engine.abandon()
        elif self.is_open:
            self.engine.close()
        if self.engine.failures:
            raise self.engine.failures[0]

    def kill(self) -> None:
        """Implement `EmbeddedCluster.kill`."""
        if not self.is_closed:
            self._end_thread()
            self.engine.abandon()

    def _end_thread(self) -> None:
        self.is_closed = True
        if self._thread is not None:
            self._stopping = True
            self.engine.wake()
            self._thread.join()
        self._inbox.close()

    def _run(self, started: threading.Event) -> None:
        self._inbox.adopt()
        started.set()
        try:
            self.step(self._clock.now_ms())
            # Checked after the step, which may have consumed the wakeup of `close`.
            while not self._stopping:
                self.engine.wait(self._clock.now_ms())
                self.step(self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - `close` raises it in the caller's thread
            self._has_failed = True
            self.engine.report(error)
        finally:
            self._inbox.close()
