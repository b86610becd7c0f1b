"""The embedded cluster: Kafka brokers in this process, over TCP on loopback, on one thread.

There are two ways to run it. As a context manager (or between `start` and `close`) it runs on its
own thread, and every method may be called from any thread: the broker's thread executes the call
and returns its result or exception. Or it runs without a thread: `open`, then `step(now_ms)`
repeatedly; tests and the simulation do this, with their own clock and network.

The brokers are strict, so that an incorrect client fails here as it would against Kafka. They are
not for production: there is one copy of each partition, in memory or in `data_dir`, and clients
need not log in unless `security` demands it.

Invariants.
    Only the thread that steps reads or writes the brokers' state.
    After `close` no thread, socket, port or directory lock is left.

Thread-safety: any thread after `start`; before it and without a thread, one thread.
Source: kprod's own; kfake and librdkafka's mock cluster for the idea.
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
    """Embedded brokers with their topics, and methods that control them and inject faults.

    Example:
        with EmbeddedCluster(brokers=3, topics={"orders": 6}) as cluster:
            print(cluster.bootstrap_servers)
            print(cluster.records("orders"))

    Attributes:
        faults: Arms faults.
    """

    __slots__ = ("_kprod", "faults")

    def __init__(  # noqa: PLR0913 - what may be put in its place, all by keyword
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
        adopt: bool = False,
        **settings: "Unpack[EmbeddedSettings]",
    ) -> None:
        """Describe a cluster; ports are bound and directories opened by `open` or `start`.

        Args:
            brokers: Number of brokers, 1 to 100, whose ids count from 0; or their ids, distinct and
                from 0 to 2³¹−1.
            topics: Number of partitions by topic; topics that a directory has are not created.
            config: Settings; the defaults are Kafka's unless their description says otherwise.
            clock: Clock of all brokers; the system's by default.
            network: Network of all brokers; TCP by default.
            security: How clients connect and log in; by default without TLS and login.
            data_dir: Directory for all data; it is created if it does not exist, but its parent is
                not. Without one, all data is in memory.
            data_dirs: Several directories, instead of one: a new partition is created in the
                directory with the fewest partitions.
            disk: File system of the directories; the operating system's by default.
            adopt: Take the directories over from an Apache Kafka, which must not use them any more.
                Its topics and the offsets of its groups are served, with all partitions on the
                first broker. Topics get the cluster's default settings, and `retention.ms=-1`.
                Without effect for directories that were adopted before.
            settings: Settings of `EmbeddedConfig` by name, such as `default_partitions=3`; they
                override those in `config`.

        Raises:
            ConfigError: A setting is unknown or out of bounds; the number of brokers or an id is
                out of bounds; an id or a directory is passed twice; there are not enough ports;
                both `data_dir` and `data_dirs` are passed, or `adopt` without one of them.
            TypeError: An argument has the wrong type; the text shows the call that was meant.
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
                # A test with its own clock must behave the same in each run.
                data_dir,
                data_dirs,
                disk,
                is_repeatable=not has_own_time,
                adopts=adopt,
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
        """Load the directories, bind every broker's port and create the topics; once.

        Args:
            on_load: Called on this thread after each loaded partition, with a summary of the loaded
                ones and the number of partitions to load.

        Raises:
            ClosedError: The cluster was closed.
            OSError: A port cannot be bound, or a file cannot be read or written.
            DirectoryRejected: A directory is in use, belongs to another cluster, or cannot be
                adopted.
            ConfigError: A topic in a directory has another number of partitions.
        """
        self._kprod.engine.state.logs.on_load = on_load
        self._kprod.open()

    def start(self) -> None:
        """Open the cluster, and run it on its own thread; otherwise like `open`."""
        self._kprod.open()
        self._kprod.start()

    def step(self, now_ms: int) -> int | None:
        """Handle everything that is due, once, without waiting.

        Args:
            now_ms: Monotonic time in milliseconds, not before that of the last step.

        Returns:
            Latest time of the next step; None if none is due until data arrives.
        """
        return self._kprod.step(now_ms)

    def close(self) -> None:
        """End the thread, and close all connections and ports; idempotent.

        Raises:
            Exception: The first failure inside the brokers, if there was one; a test might
                otherwise blame the client for it.
        """
        self._kprod.close()

    def kill(self) -> None:
        """End as if the process were killed: nothing is written or synced any more."""
        self._kprod.kill()

    def __repr__(self) -> str:
        """Show the number of brokers and their addresses."""
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
        """Start the cluster."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the cluster."""
        self.close()

    @property
    def failures(self) -> Sequence[Exception]:
        """Failures inside the brokers, at most ten; `close` raises the first."""
        return tuple(self._kprod.engine.failures)

    @property
    def loaded(self) -> "LoadSummary | None":
        """Summary of the data loaded from the directories; None for a cluster in memory."""
        return self._kprod.engine.state.logs.summary

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's thread.

        Args:
            function: A function without arguments, which must not block.

        Returns:
            The function's result; its exceptions are passed on.

        Raises:
            ClosedError: The cluster is closed.
        """
        return self._kprod.call(function)
