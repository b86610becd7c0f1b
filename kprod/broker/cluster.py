"""Some Kafka brokers in this process, over TCP on loopback, one thread for all of them.

Two ways to run it. As a context manager (or between `start` and `close`) a thread of its own runs
it, and every method may be called from any thread: the call is carried to the broker's thread and
its result or exception back. Or without a thread: `open`, then `step(now_ms)` as often as wanted;
that is how tests and the simulation drive it, with a clock and a network of their own.

It is strict, so that a client that is wrong fails here as it would fail against Kafka. It is no
production broker: there is one copy of each partition, in memory or in `data_dir`, and nobody has
to log in unless `security` says so.

Invariants.
    All state is touched by the one thread that steps.
    After `close` no thread, socket, port or lock of a directory is left.

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
    """Brokers, their topics, and the means to misbehave.

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
        **settings: "Unpack[EmbeddedSettings]",
    ) -> None:
        """Describe a cluster; nothing is bound yet, and no directory touched.

        Args:
            brokers: How many, 1 to 100, with ids from 0 on; or their ids, different ones from 0 to
                2³¹−1.
            topics: Number of partitions by topic; created unless a directory has the topics.
            config: Settings; the defaults are Kafka's where not said otherwise.
            clock: The system's if not given.
            network: TCP if not given.
            security: The demands on clients; none if not given.
            data_dir: A directory in which everything is kept; made if it does not exist, but not
                its parent. Without one, all is in memory.
            data_dirs: Several, instead of one: a new partition goes where the fewest are.
            disk: Holds the directories; the operating system's by default.
            settings: Settings by name, such as `default_partitions=3`: those of `EmbeddedConfig`,
                in the place of what `config` says.

        Raises:
            ConfigError: A setting is unknown or out of bounds, the number of brokers or an id is
                out of bounds, or an id is there twice, or there are not enough ports, or both
                `data_dir` and `data_dirs` are given, or a directory twice.
            TypeError: An argument is of another type; the text has the call that was meant.
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
        """Load the directories, bind every broker's port and make the topics; once.

        Args:
            on_load: Is called on this thread after each partition that was loaded, with a summary
                of those so far and the number of all of them.

        Raises:
            ClosedError: The cluster was closed.
            OSError: A port cannot be had, or a file cannot be read or written.
            DirectoryRejected: A directory is in use, or not this cluster's.
            ConfigError: A topic that is kept has another number of partitions.
        """
        self._kprod.engine.state.logs.on_load = on_load
        self._kprod.open()

    def start(self) -> None:
        """Open and run in a thread of its own."""
        self._kprod.open()
        self._kprod.start()

    def step(self, now_ms: int) -> int | None:
        """Do what there is to do, once, without waiting.

        Args:
            now_ms: Monotonic milliseconds, not below those of the last step.

        Returns:
            When to step again at the latest; None: when something arrives.
        """
        return self._kprod.step(now_ms)

    def close(self) -> None:
        """End the thread, close every connection, give up the ports; a second call is nothing.

        Raises:
            Exception: The first failure inside the brokers, if there was one: it would else be
                taken for a client's.
        """
        self._kprod.close()

    def kill(self) -> None:
        """End as if the process were killed: nothing is synced, no file gets its last content."""
        self._kprod.kill()

    def __repr__(self) -> str:
        """Say how many brokers there are, and where they listen."""
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
        """What went wrong inside the brokers themselves, at most ten; `close` raises the first."""
        return tuple(self._kprod.engine.failures)

    @property
    def loaded(self) -> "LoadSummary | None":
        """What the directories held when the cluster was opened; None for one in memory."""
        return self._kprod.engine.state.logs.summary

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's thread.

        Args:
            function: Takes nothing; must not block.

        Returns:
            What it returned; what it raises is raised here.

        Raises:
            ClosedError: The cluster is closed.
        """
        return self._kprod.call(function)
