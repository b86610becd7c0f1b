"""Runs the brokers of a cluster: their state and their network, step by step.

The engine has no thread. `EmbeddedCluster` runs it in one, or its user calls `step`.

Thread-safety: the stepping thread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kprod.broker.budget import MemoryBudget
from kprod.broker.cluster_state import CLUSTER_ID, ClusterState
from kprod.broker.config import EmbeddedConfig
from kprod.broker.dispatch import Dispatcher
from kprod.broker.faults import FaultBook
from kprod.broker.log.durable_logs import DurableLogs, Storage
from kprod.broker.notices import Notices
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.broker.request_frames import SCRATCH_BYTES
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.security.security_faults import SecurityFaults
from kprod.broker.server import EmbeddedBroker
from kprod.broker.sockets import Network
from kprod.broker.topic import Topic
from kprod.clock import Clock
from kprod.errors import ConfigError
from kprod.guarded_log import guarded_logger
from kprod.model import TopicPartition
from kprod.protocol.error_table import ErrorCode
from kprod.wording import counted

if TYPE_CHECKING:
    from ssl import SSLContext

    from kprod.broker.client_connection import Connection
    from kprod.broker.sasl.identities import Identities

_logger = guarded_logger(__name__)
_FAILURES_MAX = 10


class Engine:
    """The brokers of a cluster, and their shared state.

    Attributes:
        state: The state that all brokers share.
        faults: The injected faults of requests.
        throttles: Throttle time in milliseconds, by API key.
        brokers: The brokers by id; empty before `open`.
        connection_count: Number of open connections of all brokers.
        ended: Connections whose client has left, with requests to process; the oldest first.
        requests: Budget for the memory of requests.
        responses: Budget for the memory of unwritten responses.
        notices: Logs warnings about faulty clients.
        security_faults: The injected faults of TLS and logins.
        security: Required TLS, logins and rights.
        identities: Users, passwords and tokens.
        tls_context: TLS configuration; None for plain connections.
        now_ms: Time of the current step.
        failures: Failures inside the brokers, at most ten.
    """

    __slots__ = (
        "_config",
        "_network",
        "after",
        "brokers",
        "connection_count",
        "ended",
        "failures",
        "faults",
        "identities",
        "notices",
        "now_ms",
        "requests",
        "responses",
        "security",
        "security_faults",
        "soon",
        "state",
        "take_request",
        "throttles",
        "tls_context",
    )

    def __init__(
        self,
        config: EmbeddedConfig,
        clock: Clock,
        node_ids: list[int],
        *,
        security: BrokerSecurity | None = None,
        storage: Storage | None = None,
    ) -> None:
        """Create the brokers, without binding ports or accessing directories."""
        self.tls_context: SSLContext | None = None
        self._config = config
        self._network: Network | None = None
        self.state: ClusterState = ClusterState(config, clock, node_ids, security)
        self.security: BrokerSecurity = self.state.security
        if storage is not None:
            logs = DurableLogs(
                storage,
                cluster_id=CLUSTER_ID,
                node_id=node_ids[0],
                clock=clock,
                after=self.state.after,
                high_watermarks=self.state.high_watermarks,
            )
            logs.on_offline = self._take_offline
            self.state.logs = logs
            storage.syncer.start(self.wake)
        self.identities: Identities = self.state.identities
        self.faults: FaultBook = FaultBook()
        self.security_faults: SecurityFaults = SecurityFaults()
        # Functions that brokers call, besides `report`.
        self.after: Callable[[int, Callable[[], object]], None] = self.state.after
        self.soon: Callable[[Callable[[], object]], None] = self.state.soon
        self.notices: Notices = Notices(self.after)
        dispatcher = Dispatcher(self.state, self.faults, self.notices)
        self.take_request: Callable[[bytearray, Connection, int], None] = dispatcher.take_request
        self.throttles: dict[int, int] = dispatcher.throttles
        self.brokers: dict[int, EmbeddedBroker] = {}
        self.connection_count: int = 0
        self.ended: dict[Connection, None] = {}
        self.requests: MemoryBudget = MemoryBudget(
            config.queued_max_request_bytes, "requests (queued_max_request_bytes)"
        )
        self.responses: MemoryBudget = MemoryBudget(
            config.queued_max_response_bytes, "unsent answers (queued_max_response_bytes)"
        )
        self.now_ms: int = clock.now_ms()
        self.failures: list[Exception] = []

    def open(self, network: Network, topics: Mapping[str, int]) -> None:
        """Load the logs, bind all ports, then create the topics.

        Args:
            network: The socket layer.
            topics: Number of partitions by topic; a loaded topic must have the same number.

        Raises:
            OSError: A port or a file is not available; ports bound so far are released.
            Rejected: A topic cannot be created.
            DirectoryRejected: A directory cannot be used.
            ConfigError: A loaded topic has a different number of partitions.
        """
        self._network = network
        scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.tls_context = _context(self.security)
        try:
            self.state.load()
            for index, node_id in enumerate(self.state.topics.node_ids):
                broker = EmbeddedBroker(
                    node_id,
                    index=index,
                    config=self._config,
                    network=network,
                    host=self,
                    scratch=scratch,
                )
                self.brokers[node_id] = broker
                self.state.nodes[node_id] = broker.node
            for name, partition_count in topics.items():
                self._ensure_topic(name, partition_count)
        except BaseException:
            self.abandon()
            raise

    def step(self, now_ms: int) -> None:
        """Run due timers, then read, process and write whatever is ready; never waits.

        Args:
            now_ms: Monotonic milliseconds, not below those of the previous step.
        """
        self.now_ms = now_ms
        self.state.logs.deliver_syncs()
        self._run_due_timers(now_ms)
        waiting = self.state.soon_actions
        # Actions that these schedule run in the next step.
        for _ in range(len(waiting)):
            waiting.popleft()()
        if self._network is not None:
            for watcher, readable, writable in self._network.take_ready():
                watcher.on_ready(readable=readable, writable=writable)

    def next_step_ms(self, now_ms: int) -> int | None:
        """Latest time of the next step; None to wait for network events."""
        return now_ms if self.state.soon_actions else self.state.timer.next_expiry_ms

    def wait(self, now_ms: int) -> None:
        """Block until a network event, a due timer, or a call of `wake`."""
        due_ms = self.next_step_ms(now_ms)
        if self._network is not None:
            self._network.wait(None if due_ms is None else max(due_ms - now_ms, 0))

    def wake(self) -> None:
        """End a `wait`, from any thread."""
        network = self._network  # another thread may close it meanwhile
        if network is not None:
            network.wake()

    def close(self) -> None:
        """Close all connections, release the ports and sync the logs.

        Raises:
            OSError: A log cannot be synced.
        """
        self._close_network()
        self.state.close()

    def abandon(self) -> None:
        """Close all connections, and release ports and files without syncing."""
        self._close_network()
        self.state.logs.abandon()

    def topic(self, name: str) -> Topic:
        """Return a topic.

        Returns:
            The topic.

        Raises:
            Rejected: The topic or partition does not exist.
        """
        topic = self.state.topics.get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition.

        Returns:
            The partition.

        Raises:
            Rejected: The topic or partition does not exist.
        """
        partition = self.state.topics.partition(topic, index)
        if partition is None:
            raise Rejected(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}"
            )
        return partition

    def stall(self, node_id: int, stalled: bool) -> None:  # noqa: FBT001 - a callback's argument
        """Stall a broker, or let it continue."""
        if stalled:
            self.brokers[node_id].stall()
        else:
            self.brokers[node_id].resume()

    def expire_sessions(self) -> None:
        """Expire the sessions of all logged-in clients."""
        for broker in self.brokers.values():
            broker.expire_sessions()

    def fail_directory(self, path: str, after_ops: int) -> None:
        """Let a directory fail after some calls of the operating system."""
        self.state.logs.fail_directory(path, after_ops)

    def report(self, error: Exception) -> None:
        """Record a failure inside a broker."""
        _logger.error("the embedded broker failed", exc_info=error)
        if len(self.failures) < _FAILURES_MAX:
            self.failures.append(error)

    def _run_due_timers(self, now_ms: int) -> None:
        """Run due timers; if one fails, the broker has failed, and the others run nevertheless."""
        is_done = False
        while not is_done:
            try:
                self.state.timer.advance(now_ms)
            except Exception as error:  # noqa: BLE001 - reported, as a handler's failure is
                self.report(error)
            else:
                is_done = True

    def _take_offline(self, names: Sequence[TopicPartition]) -> None:
        """Let partitions lose their leaders, in the next step: a call in this one has failed."""

        def take() -> None:
            for name in names:
                partition = self.state.topics.partition(*name)
                if partition is not None:
                    partition.go_offline()

        self.state.soon(take)

    def _close_network(self) -> None:
        for broker in self.brokers.values():
            broker.close()
        if self._network is not None:
            self._network.close()
            self._network = None

    def _ensure_topic(self, name: str, partition_count: int) -> None:
        topic = self.state.topics.get(name)
        if topic is None:
            self.state.create_topic(name, partition_count=partition_count)
        elif topic.partition_count != partition_count:
            raise ConfigError(
                f"topic {name!r} is to have {counted(partition_count, 'partition')}, and has "
                f"{topic.partition_count} on disk; ask for as many, or for none"
            )


def _context(security: BrokerSecurity) -> "SSLContext | None":
    if not security.uses_tls:
        return None
    from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

    return authority().server_context(security)
