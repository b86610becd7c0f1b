# cython: annotation_typing=False, nonecheck=True
"""All connections of one client: check for readiness, send, poll.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Only the selector in `poll` blocks, and there is no thread: the owner calls `poll` in a loop.
Requests complete after all sockets were processed, so that a completion sees a consistent client
and may call any method except `poll` and `catch_up`.

A completion may run application callbacks of any duration, while responses arrive. So the timer is
advanced only to a time after which every socket was read: no response that has arrived is late.

Metadata has priority: while a metadata request is due, no node is ready.

Invariants.
    Each request given to `send` completes exactly once. A completion that raises an exception is
    called once more, with a retriable error instead of the response, so that nothing waits for it;
    a second exception ends the client's owner. There is at most one attempt for each node at a
    time, and a back-off between attempts to one address.

Thread-safety: one thread; `wakeup` and `requests_in_flight` from any thread.
Source: Kafka's NetworkClient (clients 4.3.1); KIP-219, KIP-899, KIP-1102.
"""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kprod._core.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import NetworkSettings
from kprod.errors import ClosedError, Disconnected, KprodError
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Recorder, SilentRecorder
from kprod.metrics.state_log import Event, StateLog
from kprod.model import Node
from kprod.network.client_request import ClientRequest, encoding_error, failure_of, unsent_outcome
from kprod.network.connection import NodeConnection
from kprod.network.connection_context import ConnectionContext, NetworkIO
from kprod.network.connection_errors import failure_text, kept_rejection
from kprod.network.connections import Connections
from kprod.network.metadata_updater import MetadataUpdater
from kprod.network.rebootstraps import Rebootstraps, all_failed
from kprod.network.security import Security
from kprod.network.trouble_log import TroubleLog
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import choose_version
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod.cluster.snapshot import ClusterSnapshot
    from kprod.network.sleep_hook import SleepHook

_logger = guarded_logger(__name__)
_CLOSING_ROUNDS_MAX = 3  # completions may send once more and must then get their error
_READS_BEFORE_DEADLINES_MAX = 64  # a peer that sends without end must not stop the timer


class NetworkClient:
    """Connections to the nodes of one cluster.

    Attributes:
        connections: The connections by node; chooses nodes.
        direct_path: Lets other threads use the client while it sleeps; None for none.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a client
        self,
        settings: NetworkSettings,
        metadata: Metadata,
        io: NetworkIO,
        *,
        clock: SystemClock,
        timer: Timer,
        rng: random.Random,
        recorder: Recorder | None = None,
        state_log: StateLog | None = None,
        security: Security | None = None,
    ) -> None:
        """Start without connections.

        Args:
            settings: Network settings.
            metadata: The metadata, which `poll` refreshes.
            io: Sockets, selector and resolver; closed with the client.
            clock: The clock; read after each sleep and after completions.
            timer: Timer for deadlines; `poll` advances it. Others may add tasks.
            rng: Random numbers for jitter and for the choice of a node.
            recorder: Called with events, for metrics; None for none.
            state_log: Logs changes for an operator; None creates one.
            security: TLS and SASL settings of all connections; None for plain connections.
        """
        self._recorder = recorder or SilentRecorder()
        self._context = ConnectionContext(
            settings,
            io,
            timer=timer,
            rng=rng,
            listener=self,
            recorder=self._recorder,
            state_log=state_log,
            security=security,
        )
        self._clock = clock
        self._trouble = TroubleLog(self._context.state_log)
        self._rebootstraps = Rebootstraps()
        self._metadata = metadata
        self.connections: Connections = Connections(self._context, metadata)
        self._context.attach_logins(clock, lambda: self.connections.is_any_ready)
        self._updater = MetadataUpdater(metadata, self, self.connections)
        self._seen_snapshot: ClusterSnapshot | None = None  # last checked for all nodes failing
        self._now_ms = timer.now_ms  # newest time seen
        self._closed = False
        self.direct_path: SleepHook | None = None

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to a node; starts to connect if necessary.

        Args:
            node: The node from the newest snapshot.
            now_ms: Monotonic time.

        Returns:
            The result of `is_ready`.
        """
        if self.is_ready(node.node_id, now_ms):
            return True
        connection = self.connections.of(node)
        if connection.state.must_log_in_again(now_ms):
            connection.log_in_again(now_ms)
        elif not self._closed and self.connections.connect_delay_ms(node, now_ms) == 0:
            connection.connect(now_ms)
        return False

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to a node, and no metadata request has priority.

        Args:
            node_id: Id of any node.
            now_ms: Monotonic time.

        Returns:
            True if `can_send`, and no metadata request is due.
        """
        self._now_ms = max(now_ms, self._now_ms)
        connection = self.connections.by_node_id.get(node_id)
        return (
            connection is not None
            and connection.can_send(self._now_ms)
            and self._metadata.update_due_in_ms(now_ms) > 0
        )

    def idle_connection(self, node_id: int, now_ms: int) -> NodeConnection | None:
        """Return the connection to a node without requests in flight.

        Args:
            node_id: Id of any node.
            now_ms: Monotonic time.

        Returns:
            The connection; None if the node is not ready or has requests in flight.
        """
        if not self.is_ready(node_id, now_ms):
            return None
        connection = self.connections.by_node_id[node_id]
        return None if connection.requests.newest is not None else connection

    def has_completions(self) -> bool:
        """Whether requests wait to be completed at the end of the next `poll`."""
        return bool(self._context.completions)

    def can_send(self, node_id: int) -> bool:
        """Whether a node is connected, not throttled, and below its limit of requests in flight.

        Args:
            node_id: Id of any node.

        Returns:
            True if `send` would write to its socket.
        """
        connection = self.connections.by_node_id.get(node_id)
        return connection is not None and connection.can_send(self._now_ms)

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were sent and are not complete; any thread."""
        return self.connections.requests_in_flight

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Send a request; its outcome, errors included, is reported at the end of a `poll`.

        Args:
            request: Its node must satisfy `can_send`; if not, the outcome is `Disconnected`.
            now_ms: Monotonic time.
        """
        self._now_ms = max(now_ms, self._now_ms)
        connection = self.connections.by_node_id.get(request.node_id)
        if self._closed:
            self._reject(request, ClosedError("the client was closed"))
            return
        if connection is None or not connection.can_send(self._now_ms):
            error = Disconnected(f"node {request.node_id} is not ready for {request.api_key.name}")
            self._reject(request, error)
            return
        try:
            features = connection.features
            assert features is not None  # noqa: S101 - a connection that can send has them
            version = choose_version(request.api_key, features.versions, request.wanted_versions)
            connection.send(request, version, now_ms)
        except KprodError as error:
            self._reject(request, error)
        except Exception as error:
            _logger.exception("A request for %s could not be made", request.api_key.name)
            self._reject(request, encoding_error(request, error))

    def poll(self, timeout_ms: int, now_ms: int) -> None:
        """Process sockets, resolved names, deadlines and metadata; then complete requests.

        Args:
            timeout_ms: Maximum sleep, at least 0; a deadline, an event or `wakeup` ends it earlier.
            now_ms: Monotonic time.
        """
        self._now_ms = max(now_ms, self._now_ms)
        metadata = self._metadata
        if metadata.snapshot is not self._seen_snapshot or metadata.rebootstrap_is_due(now_ms):
            self._maybe_rebootstrap()
        sleep_ms = self._sleep_ms(timeout_ms)
        self._recorder.falls_asleep()
        ready = self._sleep(sleep_ms)
        self._recorder.wakes_up()
        self._serve(ready)
        if self._context.completions:
            self.fire_completions()
        self.catch_up()
        self._recorder.has_served(self._now_ms)

    def catch_up(self) -> None:
        """Run all due timer tasks, after processing the responses that have arrived before.

        Never sleeps. It may consume a wakeup: the caller must check the wakeup's cause before it
        sleeps again.
        """
        timer = self._context.timer
        now_ms = self._read_clock()
        while timer.is_due(now_ms):
            for _ in range(_READS_BEFORE_DEADLINES_MAX):  # one read need not empty a socket
                ready = self._context.io.selector.select(0)
                if not ready:
                    break
                self._serve(ready)
            self.fire_completions()
            timer.advance(now_ms)
            self.fire_completions()
            now_ms = self._read_clock()  # later than before, if callbacks ran
        if now_ms > timer.now_ms:
            timer.advance(now_ms)

    def _read_clock(self) -> int:
        self._now_ms = max(self._now_ms, self._clock.now_ms(), self._context.timer.now_ms)
        return self._now_ms

    def _serve(self, ready: list[tuple[Any, int]]) -> None:
        """Process socket events and resolved names."""
        now_ms = self._read_clock()
        for connection, events in ready:
            connection.serve(events, now_ms)
        for resolution in self._context.io.resolver.take():
            self.connections.on_resolution(resolution, now_ms)
        while self._context.login_outcomes:
            self._context.login_outcomes.popleft()()

    def wakeup(self) -> None:
        """End the sleep of the current or the next `poll`; any thread."""
        self._context.io.selector.wakeup()

    @property
    def io(self) -> NetworkIO:
        """The client's I/O."""
        return self._context.io

    @property
    def waker(self) -> Callable[[], object]:
        """A C function like `wakeup`, for threads that know that `poll` sleeps; see `Selector`."""
        return self._context.io.selector.waker

    def disconnect(self, node_id: int) -> None:
        """Close a connection; its requests complete as disconnected in the next `poll`."""
        connection = self.connections.by_node_id.get(node_id)
        if connection is not None:
            error = Disconnected(f"the client closed the connection to {connection.node.address}")
            connection.drop(error, self._now_ms)

    def close(self) -> None:
        """Close every connection, complete every request with `ClosedError`, close `NetworkIO`."""
        if self._closed:
            return
        self._closed = True
        self.connections.drop_all(ClosedError("the client was closed"), self._now_ms)
        self.connections.by_node_id.clear()
        for _ in range(_CLOSING_ROUNDS_MAX):
            self.fire_completions()
        if self.direct_path is not None:
            self.direct_path.close()
        self._context.close()

    def close_after_fork(self) -> None:
        """Close all descriptors, in any state; complete no request and send nothing.

        For a forked child, which must not disturb the parent's connections, and for a client whose
        `close` failed.
        """
        self._closed = True
        self.connections.close_after_fork()
        self._context.security.close_after_fork()
        if self.direct_path is not None:
            self.direct_path.close()
        self._context.io.selector.close_after_fork()

    def on_connection_ready(self, node: Node) -> None:
        """See `ConnectionListener`."""
        self._recorder.connected()
        self._metadata.connection_failures.note(node.address, None)
        self._trouble.calm()
        self._trouble.listener_works(node)

    def on_connection_down(self, node: Node, error: KprodError, failures: int) -> None:
        """See `ConnectionListener`."""
        if self._closed:
            return
        if not self.connections.is_any_ready:
            self._trouble.nobody_reached(error, self._now_ms)
        if node.node_id >= 0:
            self._trouble.listener_failed(node, failures, error)
        self._seen_snapshot = None
        self._metadata.request_update()
        if rejection := kept_rejection(error):
            self._metadata.fail_waiters(rejection)
        reason = failure_text(error, self._metadata.snapshot.nodes, self._metadata.principal)
        self._metadata.connection_failures.note(node.address, reason, rejection)

    def _sleep(self, sleep_ms: int) -> list[tuple[Any, int]]:
        direct_path, selector = self.direct_path, self._context.io.selector
        if direct_path is None or sleep_ms == 0:
            return selector.select(sleep_ms)
        sleep_ms = min(sleep_ms, direct_path.sleep_max_ms)
        direct_path.before_sleep(self._now_ms + sleep_ms)
        try:
            return selector.select(sleep_ms)
        finally:
            direct_path.after_sleep()  # the selector must watch everything again before `catch_up`

    def _sleep_ms(self, timeout_ms: int) -> int:
        now_ms = self._now_ms
        due_in_ms = self._metadata.update_due_in_ms(now_ms) or self._updater.maybe_update(now_ms)
        sleep_ms = min(timeout_ms, due_in_ms)
        expiry_ms = self._context.timer.next_expiry_ms
        if expiry_ms is not None:
            sleep_ms = min(sleep_ms, expiry_ms - now_ms)
        # A request that was rejected, or that has no response and was written, is complete already.
        return 0 if self._context.completions else max(sleep_ms, 0)

    def _maybe_rebootstrap(self) -> None:
        """Drop all nodes if a broker demands it, metadata requests fail, or all are down."""
        now_ms = self._now_ms
        if self._metadata.rebootstrap_is_due(now_ms):
            error = Disconnected("the client begins again from bootstrap_servers")
            self.connections.drop_all(error, now_ms)
        elif not self._all_nodes_failed(now_ms):
            return
        if self._rebootstraps.begin(self._metadata.snapshot.nodes, now_ms):
            self._context.state_log.note(Event.REBOOTSTRAPPED)
        self._metadata.rebootstrap(now_ms)

    def _all_nodes_failed(self, now_ms: int) -> bool:
        snapshot = self._metadata.snapshot
        if (
            snapshot is self._seen_snapshot
            or not self._metadata.recovers_by_rebootstrap
            or self._rebootstraps.must_wait(snapshot.nodes, now_ms)
        ):
            return False
        # For these nodes, only the loss of another connection can make the condition true.
        self._seen_snapshot = snapshot
        return all_failed(snapshot, self.connections, now_ms)

    def _reject(self, request: ClientRequest, error: KprodError) -> None:
        self._context.completions.append((request, unsent_outcome(request, error, self._now_ms)))

    def fire_completions(self) -> None:
        """Complete the waiting requests; `poll` does it at its end."""
        completions = self._context.completions
        for _ in range(len(completions)):
            request, outcome = completions.popleft()
            try:
                request.complete(outcome)
            except Exception as error:
                _logger.exception("A completion of %s failed", request.api_key.name)
                if request.api_key is ApiKey.PRODUCE:
                    raise  # batches may be partly settled: the sender must end, and settle all
                request.complete(failure_of(request, outcome, error))
