# cython: annotation_typing=False, nonecheck=True
"""All connections of one client behind plain calls: may I send, send, poll.

Nothing here blocks but the selector in `poll`, and nothing has a thread: the owner calls `poll` in
a loop. Requests complete after every socket was looked at, so that a completion sees a settled
client and may call anything but `poll` and `catch_up`.

A completion may run application callbacks for as long as they like, and responses arrive meanwhile.
So the timer is advanced only to an instant after which every socket was read: a response that has
arrived is not late.

Metadata first: while a question about the cluster is due no node counts as ready, so that what is
sent next is sent by the newest picture.

Invariants.
    Each request given to `send` completes exactly once.
    An exception in a completion is logged; the others still run.
    At most one attempt per node at a time, and a wait between attempts to one address.

Thread-safety: one thread, but for `wakeup` and `connection_errors`, which any thread may call.
Source: Kafka's NetworkClient (clients 4.3.1); KIP-219, KIP-899, KIP-1102.
"""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from kprod.clock import Clock
from kprod.cluster.metadata import NEVER_MS, Metadata
from kprod.config import NetworkSettings
from kprod.errors import AuthenticationFailed, ClosedError, Disconnected, KprodError
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Recorder, SilentRecorder
from kprod.metrics.state_log import Event
from kprod.model import Node
from kprod.network.connection import NodeConnection
from kprod.network.metadata_updater import MetadataUpdater
from kprod.network.negotiation import BrokerFeatures
from kprod.network.rebootstraps import Rebootstraps
from kprod.network.request import ClientRequest, Outcome
from kprod.network.selector import Selector
from kprod.network.surroundings import NetworkDoors, Surroundings
from kprod.network.trouble_log import TroubleLog
from kprod.protocol.api import ApiKey
from kprod.protocol.api_versions import choose_version
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod.cluster.snapshot import ClusterSnapshot

_logger = guarded_logger(__name__)
_NO_VERSIONS: Mapping[int, tuple[int, int]] = MappingProxyType({})
_CLOSING_ROUNDS_MAX = 3  # completions may send once more, and hear that it is too late
_READS_BEFORE_DEADLINES_MAX = 64  # a peer that never stops sending must not stop the timer
_FAILURES_BEFORE_REBOOTSTRAP = 2  # the loss of a connection, and a reconnect that failed too


class SleepingPlace(Protocol):
    """Lets another thread use the client while its own sleeps."""

    sleep_max_ms: int
    """Longest sleep."""

    def lend(self, until_ms: int) -> None:
        """The client's thread sleeps now; what is not later than `until_ms` it sees in time."""

    def take_back(self) -> None:
        """It is awake: the client is its own again, which may take a moment."""

    def close(self) -> None:
        """Give up its descriptors."""


class NetworkClient:  # noqa: PLR0904 - what may be asked of all connections, and done with them
    """Connections to the nodes of one cluster.

    Attributes:
        lane: Who may use it while it sleeps; None for nobody.
    """

    __slots__ = (
        "_around",
        "_clock",
        "_closed",
        "_connections",
        "_metadata",
        "_now_ms",
        "_rebootstraps",
        "_recorder",
        "_seen_snapshot",
        "_trouble",
        "_updater",
        "lane",
    )

    def __init__(  # noqa: PLR0913 - what connections need of the world
        self,
        settings: NetworkSettings,
        metadata: Metadata,
        doors: NetworkDoors,
        *,
        clock: Clock,
        timer: Timer,
        source: random.Random,
        recorder: Recorder | None = None,
    ) -> None:
        """Begin without connections.

        Args:
            settings: Of the network.
            metadata: Kept new by `poll`.
            doors: To the world; closed with the client.
            clock: Read after each sleep, and after completions.
            timer: For deadlines; `poll` advances it, others may put tasks on it too.
            source: For jitter, and to spread metadata questions over the nodes.
            recorder: Told what happens; None keeps nothing.
        """
        self._recorder = recorder or SilentRecorder()
        self._around = Surroundings(
            settings,
            doors,
            timer=timer,
            source=source,
            listener=self,
            recorder=self._recorder,
        )
        self._clock = clock
        self._trouble = TroubleLog(self._around.state_log)
        self._rebootstraps = Rebootstraps()
        self._metadata = metadata
        self._updater = MetadataUpdater(metadata, self)
        self._connections: dict[int, NodeConnection] = {}
        self._seen_snapshot: ClusterSnapshot | None = None  # whose nodes are known not all to fail
        self._now_ms = timer.now_ms  # newest time seen
        self._closed = False
        self.lane: SleepingPlace | None = None

    def ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent to a node; if it is not connected, begin to.

        Args:
            node: As the newest snapshot has it.
            now_ms: Monotonic.

        Returns:
            As `is_ready`.
        """
        if self.is_ready(node.node_id, now_ms):
            return True
        connection = self._connections.get(node.node_id)
        if connection is None or (connection.state.is_down and connection.node != node):
            self._forget_gone_nodes()
            connection = self._connections[node.node_id] = NodeConnection(node, self._around)
        if not self._closed and self._connect_delay_ms(node, connection, now_ms) == 0:
            connection.connect(now_ms)
        return False

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to a node, and should.

        Args:
            node_id: Any.
            now_ms: Monotonic.

        Returns:
            True if `can_send`, and no question about the cluster is due.
        """
        self._now_ms = max(now_ms, self._now_ms)
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.can_send(self._now_ms)
            and self._metadata.update_due_in_ms(now_ms) > 0
        )

    def idle_connection(self, node_id: int, now_ms: int) -> NodeConnection | None:
        """Find the connection to a node that has answered everything.

        Args:
            node_id: Any.
            now_ms: Monotonic.

        Returns:
            None if the node is not ready for a request, or has one.
        """
        if not self.is_ready(node_id, now_ms):
            return None
        connection = self._connections[node_id]
        return None if connection.requests.newest is not None else connection

    def has_completions(self) -> bool:
        """Whether requests are to be completed at the end of the next `poll`."""
        return bool(self._around.completions)

    def can_send(self, node_id: int) -> bool:
        """Whether a node is connected, not throttled, and has room in flight.

        Args:
            node_id: Any.

        Returns:
            True if `send` would write to its socket.
        """
        connection = self._connections.get(node_id)
        return connection is not None and connection.can_send(self._now_ms)

    def in_flight_count(self, node_id: int) -> int:
        """How many requests of a node are sent and not complete.

        Args:
            node_id: Any.

        Returns:
            At least 0; the client's own requests count.
        """
        connection = self._connections.get(node_id)
        return 0 if connection is None else len(connection.requests)

    @property
    def requests_in_flight(self) -> int:
        """How many requests are sent and not complete; any thread."""
        return sum(len(connection.requests) for connection in list(self._connections.values()))

    def poll_delay_ms(self, node: Node, now_ms: int) -> int:
        """How long until asking `ready` again can make a difference, if no event comes before.

        Args:
            node: Any.
            now_ms: Monotonic.

        Returns:
            The rest of a back-off or throttle; 0 if a request may be sent or an attempt begun;
            `NEVER_MS` if only an event (connected, answered) can change it, which ends `poll`.
        """
        connection = self._connections.get(node.node_id)
        if connection is None or connection.state.is_down:
            return self._connect_delay_ms(node, connection, now_ms)
        state = connection.state
        if state.is_ready and state.throttled_until_ms > now_ms:
            return state.throttled_until_ms - now_ms
        return 0 if connection.can_send(now_ms) else NEVER_MS

    def next_attempt_in_ms(self, now_ms: int) -> int:
        """How long until some node of the snapshot can be connected to or sent to again.

        Args:
            now_ms: Monotonic.

        Returns:
            The least `poll_delay_ms`.
        """
        nodes = self._metadata.snapshot.nodes.values()
        return min((self.poll_delay_ms(node, now_ms) for node in nodes), default=NEVER_MS)

    def advertised(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """Which versions a node speaks.

        Args:
            node_id: Any.

        Returns:
            First and last version by API key; empty while not connected.
        """
        features = self.features(node_id)
        return _NO_VERSIONS if features is None else features.versions

    def features(self, node_id: int) -> BrokerFeatures | None:
        """What a node said about itself when it was connected to.

        Args:
            node_id: Any.

        Returns:
            Versions and finalized features; None while not connected.
        """
        connection = self._connections.get(node_id)
        return None if connection is None else connection.features

    def connection_errors(self) -> Mapping[str, str]:
        """Why addresses cannot be used.

        Returns:
            The newest failure by `host:port`; an address that works has none.
        """
        return self._metadata.connection_errors

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """Choose a node for a request that any node can answer.

        Args:
            now_ms: Monotonic.

        Returns:
            Connected with fewest requests in flight; else one being connected to; else the one
            whose last attempt is longest ago. None when all are throttled, full or held back.
        """
        self._now_ms = max(now_ms, self._now_ms)
        nodes = list(self._metadata.snapshot.nodes.values())
        start = self._around.source.randrange(len(nodes)) if nodes else 0
        sendable: tuple[int, Node] | None = None
        pending: Node | None = None
        connectable: tuple[int, Node] | None = None
        for node in nodes[start:] + nodes[:start]:
            connection = self._connections.get(node.node_id)
            if connection is None or connection.state.is_down:
                if self._connect_delay_ms(node, connection, now_ms):
                    continue
                attempt_ms = -1 if connection is None else connection.state.last_attempt_ms
                if connectable is None or attempt_ms < connectable[0]:
                    connectable = (attempt_ms, node)
            elif connection.can_send(now_ms):
                count = len(connection.requests)
                if sendable is None or count < sendable[0]:
                    sendable = (count, node)
            elif not connection.state.is_ready:
                pending = node
        if sendable is not None:
            return sendable[1]
        return pending or (connectable[1] if connectable is not None else None)

    def send(self, request: ClientRequest, now_ms: int) -> None:
        """Send a request; what can go wrong is told by its outcome, at the end of a `poll`.

        Args:
            request: To a node for which `can_send` is true. If it is not, the outcome is
                `Disconnected` and nothing was written.
            now_ms: Monotonic.
        """
        self._now_ms = max(now_ms, self._now_ms)
        connection = self._connections.get(request.node_id)
        if self._closed:
            self._refuse(request, ClosedError("the client was closed"))
            return
        if connection is None or not connection.can_send(self._now_ms):
            error = Disconnected(f"node {request.node_id} is not ready for {request.api_key.name}")
            self._refuse(request, error)
            return
        try:
            features = connection.features
            versions = _NO_VERSIONS if features is None else features.versions
            version = choose_version(request.api_key, versions, request.wanted_versions)
            connection.send(request, version, now_ms)
        except KprodError as error:
            self._refuse(request, error)
        except Exception as error:
            _logger.exception("A request for %s could not be made", request.api_key.name)
            self._refuse(request, _not_made(request, error))

    def poll(self, timeout_ms: int, now_ms: int) -> None:
        """Do what there is to do: sockets, names, deadlines, metadata; then complete requests.

        Args:
            timeout_ms: Longest sleep, at least 0; a deadline, an event or `wakeup` ends it sooner.
            now_ms: Monotonic.
        """
        self._now_ms = max(now_ms, self._now_ms)
        is_new = self._metadata.snapshot is not self._seen_snapshot
        if is_new or self._metadata.rebootstrap_is_due(now_ms):
            self._maybe_rebootstrap()
        sleep_ms = self._sleep_ms(timeout_ms)
        self._recorder.falls_asleep()
        ready = self._sleep(sleep_ms)
        self._recorder.wakes_up()
        self._serve(ready)
        if self._around.completions:
            self.fire_completions()
        self.catch_up()
        self._recorder.has_served(self._now_ms)

    def catch_up(self) -> None:
        """Run every timer task that is due, after taking in each response that came before.

        It never sleeps, and it may consume a wakeup: the caller must look for the wakeup's cause
        before it sleeps again.
        """
        timer = self._around.timer
        now_ms = self._read_clock()
        while timer.is_due(now_ms):
            for _ in range(_READS_BEFORE_DEADLINES_MAX):  # one read need not empty a socket
                ready = self._around.doors.selector.select(0)
                if not ready:
                    break
                self._serve(ready)
            self.fire_completions()
            timer.advance(now_ms)
            self.fire_completions()
            now_ms = self._read_clock()  # later, if callbacks ran
        if now_ms > timer.now_ms:
            timer.advance(now_ms)

    def _read_clock(self) -> int:
        self._now_ms = max(self._now_ms, self._clock.now_ms(), self._around.timer.now_ms)
        return self._now_ms

    def _serve(self, ready: list[tuple[Any, int]]) -> None:
        """Take in what the selector reported, and the names that are resolved."""
        now_ms = self._read_clock()
        for connection, events in ready:
            connection.serve(events, now_ms)
        for resolution in self._around.doors.resolver.take():
            for connection in list(self._connections.values()):
                if (connection.node.host, connection.node.port) == resolution[:2]:
                    connection.on_resolution(resolution, now_ms)

    def wakeup(self) -> None:
        """End the present or the next `poll`'s sleep; any thread."""
        self._around.doors.selector.wakeup()

    @property
    def selector(self) -> Selector:
        """What `poll` sleeps on."""
        return self._around.doors.selector

    @property
    def waker(self) -> Callable[[], object]:
        """As `wakeup`, of built-ins only, for one who knows that `poll` sleeps; see `Selector`."""
        return self._around.doors.selector.waker

    def disconnect(self, node_id: int) -> None:
        """Close a connection; its requests complete as disconnected in the next `poll`.

        Args:
            node_id: Any.
        """
        connection = self._connections.get(node_id)
        if connection is not None:
            address = connection.node.address
            connection.drop(
                Disconnected(f"the client closed the connection to {address}"), self._now_ms
            )

    def close(self) -> None:
        """Close every connection, complete every request with `ClosedError`, close the doors."""
        if self._closed:
            return
        self._closed = True
        for connection in self._connections.values():
            connection.drop(ClosedError("the client was closed"), self._now_ms)
        self._connections.clear()
        for _ in range(_CLOSING_ROUNDS_MAX):
            self.fire_completions()
        if self.lane is not None:
            self.lane.close()
        self._around.doors.resolver.close()
        self._around.doors.selector.close()
        self._around.receive_buffer = bytearray()

    def forsake(self) -> None:
        """Close all descriptors, whatever state things are in; nobody is told.

        For a forked child, where brokers and the parent must not notice, and for a client that
        `close` could not close.
        """
        self._closed = True
        for connection in self._connections.values():
            connection.forsake()
        self._connections = {}
        if self.lane is not None:
            self.lane.close()
        self._around.doors.selector.forsake()

    def on_connection_ready(self, node: Node) -> None:
        """See `ConnectionListener`."""
        self._recorder.connected()
        self._metadata.note_connection_error(node.address, None)
        self._trouble.calm()
        self._trouble.listener_works(node)

    def on_connection_down(self, node: Node, error: KprodError, failures: int) -> None:
        """See `ConnectionListener`."""
        if self._closed:
            return
        if not any(other.state.is_ready for other in self._connections.values()):
            self._trouble.nobody_reached(error, self._now_ms)
        if node.node_id >= 0:
            self._trouble.listener_failed(node, failures, error)
        self._seen_snapshot = None
        self._metadata.note_connection_error(node.address, str(error))
        self._metadata.request_update()
        if isinstance(error, AuthenticationFailed):
            self._metadata.fail_waiters(error)

    def _sleep(self, sleep_ms: int) -> list[tuple[Any, int]]:
        lane, selector = self.lane, self._around.doors.selector
        if lane is None or sleep_ms == 0:
            return selector.select(sleep_ms)
        sleep_ms = min(sleep_ms, lane.sleep_max_ms)
        lane.lend(self._now_ms + sleep_ms)
        try:
            return selector.select(sleep_ms)
        finally:
            lane.take_back()  # the selector watches all again, before `catch_up` looks

    def _sleep_ms(self, timeout_ms: int) -> int:
        now_ms = self._now_ms
        due_in_ms = self._metadata.update_due_in_ms(now_ms) or self._updater.maybe_update(now_ms)
        sleep_ms = min(timeout_ms, due_in_ms)
        expiry_ms = self._around.timer.next_expiry_ms
        if expiry_ms is not None:
            sleep_ms = min(sleep_ms, expiry_ms - now_ms)
        # A request that was refused, or written without a response to come, is complete already.
        return 0 if self._around.completions else max(sleep_ms, 0)

    def _maybe_rebootstrap(self) -> None:
        """Give up all nodes when a broker demands it, questions keep failing, or all are down."""
        now_ms = self._now_ms
        if self._metadata.rebootstrap_is_due(now_ms):
            for connection in self._connections.values():
                connection.drop(
                    Disconnected("the client begins again from bootstrap_servers"), now_ms
                )
        elif not self._all_nodes_failed(now_ms):
            return
        if self._rebootstraps.begin(self._metadata.snapshot.nodes, now_ms):
            self._around.state_log.note(Event.REBOOTSTRAPPED)
        self._metadata.rebootstrap(now_ms)

    def _all_nodes_failed(self, now_ms: int) -> bool:
        snapshot = self._metadata.snapshot
        if snapshot is self._seen_snapshot or not self._metadata.recovers_by_rebootstrap:
            return False
        if self._rebootstraps.must_wait(snapshot.nodes, now_ms):
            return False
        # Nothing but the loss of another connection can make it true for these nodes.
        self._seen_snapshot = snapshot
        if snapshot.is_bootstrap:
            return False
        for node_id in snapshot.nodes:
            connection = self._connections.get(node_id)
            if (
                connection is None
                or not connection.state.is_down
                or connection.state.can_connect(now_ms)
                or connection.state.failures < _FAILURES_BEFORE_REBOOTSTRAP
            ):
                return False
        return True

    def _connect_delay_ms(self, node: Node, connection: NodeConnection | None, now_ms: int) -> int:
        """How long until a node without connection may be connected to."""
        attempts = self._around.attempts
        wait_ms = attempts.wait_ms(node, now_ms)
        if connection is None or connection.node != node:
            return wait_ms
        state = connection.state
        return max(wait_ms, state.retry_at_ms - now_ms) if state.is_down else NEVER_MS

    def _forget_gone_nodes(self) -> None:
        """Let go of nodes that left the cluster, so that their number stays bounded."""
        nodes = self._metadata.snapshot.nodes
        for node_id, connection in list(self._connections.items()):
            if connection.state.is_down and node_id not in nodes:
                del self._connections[node_id]

    def _refuse(self, request: ClientRequest, error: KprodError) -> None:
        outcome = Outcome(
            node_id=request.node_id,
            version=-1,
            was_written=False,
            latency_ms=0,
            now_ms=self._now_ms,
            error=error,
        )
        self._around.completions.append((request, outcome))

    def fire_completions(self) -> None:
        """Tell what became of requests; `poll` does it at its end."""
        completions = self._around.completions
        for _ in range(len(completions)):
            request, outcome = completions.popleft()
            try:
                request.complete(outcome)
            except Exception:
                _logger.exception("A completion of %s failed", request.api_key.name)
                if request.api_key is ApiKey.PRODUCE:
                    # Batches may be half settled: the sender must end, which settles all.
                    raise


def _not_made(request: ClientRequest, cause: Exception) -> KprodError:
    """What a request ends with that kprod could not put into bytes; nothing of it was written."""
    text = f"a request for {request.api_key.name} could not be made: {cause!r}"
    # Memory comes free again; any other failure would come back.
    error = Disconnected(text) if isinstance(cause, MemoryError) else KprodError(text)
    error.__cause__ = cause
    return error
