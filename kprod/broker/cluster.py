"""An embedded Kafka cluster: brokers in this process, over TCP on loopback, in one thread.

There are two ways to run it. As a context manager (or between `start` and `close`) it runs in its
own thread, and any thread may call its methods: a call is executed by the broker's thread, and its
result or exception is passed back. Without a thread, call `open`, then `step(now_ms)` repeatedly;
tests and simulations do this with their own clock and network.

It validates strictly, so that a faulty client fails here as it would against Kafka. It is not a
production broker: each partition has one copy, in memory or in `data_dir`, and clients need no
login unless `security` demands it.

Invariants.
    Only the stepping thread accesses the state. `close` ends the thread and releases all sockets,
    ports and directory locks.

Thread-safety: any thread after `start`; otherwise one thread at a time.
Source: kprod's own; the idea is that of kfake and librdkafka's mock cluster.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar, Unpack

from kprod.broker.cluster_arguments import check_ports, check_types, node_ids, storage_of
from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.config import EmbeddedConfig
from kprod.broker.control.broker_control import BrokerControl
from kprod.broker.control.client_access import ClientAccess
from kprod.broker.control.group_control import GroupControl
from kprod.broker.control.record_waits import RecordWaits
from kprod.broker.engine import Engine
from kprod.broker.faults import FaultControl
from kprod.broker.log.disk import Disk
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.sockets import Network
from kprod.clock import Clock, SystemClock
from kprod.wording import counted

if TYPE_CHECKING:
    from kprod.broker.embedded_settings import EmbeddedSettings
    from kprod.broker.log.partition_logs import LoadSummary, OnLoad

T = TypeVar("T")


class EmbeddedCluster(RecordWaits, GroupControl, BrokerControl, ClientAccess):
    """A cluster of brokers with topics, and methods to control it.

    Example:
        with EmbeddedCluster(brokers=3, topics={"orders": 6}) as cluster:
            print(cluster.bootstrap_servers)
            print(cluster.records("orders"))

    Attributes:
        faults: Injects faults.
    """

    __slots__ = ("_kprod", "faults")

    def __init__(  # noqa: PLR0913 - what tests and simulations replace, by keyword
        self,
        brokers: int | Sequence[int] = 3,
        topics: Mapping[str, int] | None = None,
        *,
        config: EmbeddedConfig | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        security: BrokerSecurity | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        data_dirs: Sequence[str | os.PathLike[str]] = (),
        disk: Disk | None = None,
        **settings: "Unpack[EmbeddedSettings]",
    ) -> None:
        """Create a cluster without binding a port or accessing a directory.

        Args:
            brokers: Number of brokers, 1 to 100, with ids from 0 on; or their distinct ids, 0 to
                2³¹−1.
            topics: Number of partitions by topic; created unless a directory has the topics.
            config: Settings; defaults are Kafka's unless documented otherwise.
            clock: The clock; the system's by default.
            network: The network layer; TCP by default.
            security: Required TLS, logins and rights; none by default.
            data_dir: Directory for all data; created if it does not exist, except for its parents.
                Without one, all data is in memory.
            data_dirs: Several directories instead of one; a new partition goes to the one with the
                fewest partitions.
            disk: The disk that has the directories; the operating system's by default.
            settings: Fields of `EmbeddedConfig`, such as `default_partitions=3`; they override
                `config`.

        Raises:
            ConfigError: A setting is unknown or out of bounds; the number of brokers or an id is
                out of bounds; an id is repeated; there are not enough ports; both `data_dir` and
                `data_dirs` are given; or a directory is repeated.
            TypeError: An argument has the wrong type; the text shows the intended call.
        """
        check_types(brokers, topics, config)
        has_own_time = clock is None
        clock = clock or SystemClock()
        config = EmbeddedConfig.of(config, settings)
        ids = node_ids(brokers)
        check_ports(config, len(ids))
        engine = Engine(
            config,
            clock,
            ids,
            security=security,
            storage=storage_of(
                # A test that moves the time itself must see the same each time.
                data_dir,
                data_dirs,
                disk,
                is_repeatable=not has_own_time,
            ),
        )
        self._kprod = ClusterRunner(engine, topics=dict(topics or {}), clock=clock, network=network)
        self.faults: FaultControl = FaultControl(engine, call=self._kprod.call)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an EmbeddedCluster cannot be pickled or copied, since it owns a thread and sockets;"
            " pass its bootstrap_servers on"
        )

    def open(self, on_load: "OnLoad | None" = None) -> None:
        """Load the directories, bind the ports and create the topics; callable once.

        Args:
            on_load: Called on this thread after each loaded partition, with the results so far and
                the number of all partitions.

        Raises:
            ClosedError: The cluster was closed.
            OSError: A port is not available, or a file cannot be read or written.
            DirectoryRejected: A directory is in use, or belongs to another cluster.
            ConfigError: A stored topic has a different number of partitions.
        """
        self._kprod.engine.state.logs.on_load = on_load
        self._kprod.open()

    def start(self) -> None:
        """Open the cluster and run it in its own thread."""
        self._kprod.open()
        self._kprod.start()

    def step(self, now_ms: int) -> int | None:
        """Process everything that is ready once, without waiting.

        Args:
            now_ms: Monotonic milliseconds, not below those of the previous step.

        Returns:
            Latest time of the next step; None to wait for network events.
        """
        return self._kprod.step(now_ms)

    def close(self) -> None:
        """Stop the thread, close all connections and release the ports; idempotent.

        Raises:
            Exception: The first failure inside the brokers, if any, which could otherwise be
                mistaken for a client's.
        """
        self._kprod.close()

    def kill(self) -> None:
        """Stop as if the process were killed: nothing is synced or written."""
        self._kprod.kill()

    def __repr__(self) -> str:
        """Describe the number of brokers and their addresses."""
        name = type(self).__name__
        runner = getattr(self, "_kprod", None)
        if runner is None or not hasattr(self, "faults"):
            return f"<{name}, not made: its __init__ has not run to the end>"
        brokers = counted(len(runner.engine.state.topics.node_ids), "broker")
        if runner.is_closed:
            return f"<{name} of {brokers}, closed>"
        if not runner.is_open:
            return f"<{name} of {brokers}, not started>"
        return f"<{name} of {brokers}, open, bootstrap_servers={self.bootstrap_servers!r}>"

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    @property
    def failures(self) -> Sequence[Exception]:
        """Failures inside the brokers, at most ten; `close` raises the first."""
        return tuple(self._kprod.engine.failures)

    @property
    def loaded(self) -> "LoadSummary | None":
        """The results of loading the directories; None for a cluster in memory."""
        return self._kprod.engine.state.logs.summary

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's thread and wait for it.

        Args:
            function: A function without arguments that must not block.

        Returns:
            Its result; its exceptions are raised here.

        Raises:
            ClosedError: The cluster is closed.
        """
        return self._kprod.call(function)
