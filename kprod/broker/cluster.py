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
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from kprod.broker.cluster_arguments import check_types, node_ids, storage_of
from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.config import EmbeddedConfig
from kprod.broker.engine import Engine
from kprod.broker.faults import FaultControl
from kprod.broker.group.view import GroupView
from kprod.broker.log.disk import Disk
from kprod.broker.rejection import Refused
from kprod.broker.replication import PartitionView
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.security.client_settings import client_settings
from kprod.broker.sockets import Network
from kprod.clock import Clock, SystemClock
from kprod.errors import ConfigError
from kprod.model import Record
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_records
from kprod.wording import counted

if TYPE_CHECKING:
    from kprod.broker.log.partition_logs import LoadSummary
    from kprod.broker.security.authority import ClientCertificate

T = TypeVar("T")


class EmbeddedCluster:  # noqa: PLR0904 - a method for each thing that a test may do to it
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
    ) -> None:
        """Describe a cluster; nothing is bound yet, and no directory touched.

        Args:
            brokers: How many, 1 to 100, with ids from 0 on; or their ids, different ones from 0 to
                2³¹−1.
            topics: Partitions by topic, made at once, unless a directory has them.
            config: Settings; the defaults are Kafka's where not said otherwise.
            clock: The system's if not given.
            network: TCP if not given.
            security: The demands on clients; none if not given.
            data_dir: A directory in which everything is kept; without one, all is in memory.
            data_dirs: Several, instead of one: a new partition goes where the fewest are.
            disk: What holds the directories; the operating system's if not given.

        Raises:
            ConfigError: The number of brokers or an id is out of bounds, or an id is there twice,
                or both `data_dir` and `data_dirs` are given, or a directory twice.
            TypeError: An argument is of another type; the text has the call that was meant.
        """
        check_types(brokers, topics, config)
        clock = clock or SystemClock()
        engine = Engine(
            config or EmbeddedConfig(),
            clock,
            node_ids(brokers),
            security=security,
            storage=storage_of(data_dir, data_dirs, disk),
        )
        self._kprod = ClusterRunner(engine, topics=dict(topics or {}), clock=clock, network=network)
        self.faults = FaultControl(engine, call=self._kprod.call)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an EmbeddedCluster cannot be pickled or copied, since it owns a thread and sockets;"
            " pass its bootstrap_servers on"
        )

    def open(self) -> None:
        """Load the directories, bind every broker's port and make the topics; once.

        Raises:
            ClosedError: The cluster was closed.
            OSError: A port cannot be had, or a file cannot be read or written.
            DirectoryRejected: A directory is in use, or not this cluster's.
            ConfigError: A topic that is kept has another number of partitions.
        """
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
        return f"<{name} of {brokers}, bootstrap_servers={self.bootstrap_servers!r}>"

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

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, host and port of each, with commas between."""
        return ",".join(broker.node.address for broker in self._kprod.engine.brokers.values())

    @property
    def ca_pem(self) -> str:
        """The certificate that clients of a cluster with TLS trust, as PEM text."""
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().pem

    def client_certificate(self, user: str) -> "ClientCertificate":
        """Issue a certificate for a client.

        Args:
            user: Its common name.

        Returns:
            The certificate and its key, as PEM texts.
        """
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().client_certificate(user)

    def token(self, user: str, *, expires_in_s: float = 3_600, **claims: object) -> str:
        """Sign a token with which a client logs in by OAUTHBEARER.

        Args:
            user: Its subject.
            expires_in_s: From now on; negative for one that is over.
            claims: Over those that the cluster wants; None leaves one out.

        Returns:
            The token, a JWT.

        Raises:
            ConfigError: The cluster has no OAUTHBEARER.
        """
        tokens = self._kprod.engine.identities.bearer_tokens
        if tokens is None:
            raise ConfigError(
                "the cluster takes no tokens; make it with"
                " BrokerSecurity(protocol='SASL_SSL', mechanisms=('OAUTHBEARER',))"
            )
        return tokens.sign(user, expires_in_s, claims)

    def client_settings(
        self, *, user: str | None = None, mechanism: str | None = None, names: str = "kprod"
    ) -> dict[str, Any]:
        """Return the settings with which a client connects to this cluster.

        Args:
            user: The user that logs in, where a login is wanted; None for the first one. By
                OAUTHBEARER any name will do.
            mechanism: How; None for the first that there is.
            names: Of which client: `kprod`, `confluent`, `kafka` (kafka-python) or `aiokafka`.

        Returns:
            Settings by name, bootstrap servers included.

        Raises:
            ConfigError: No such client, user or mechanism is known.
        """
        return client_settings(
            self._kprod.engine.security,
            self.bootstrap_servers,
            names=names,
            user=user,
            mechanism=mechanism,
            sign=self.token,
        )

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

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic.

        Args:
            name: Legal and free.
            partitions: −1 takes the cluster's default.
            replication_factor: −1 takes the cluster's default.
            settings: Kafka's dotted names, such as `message.timestamp.type`.

        Raises:
            Refused: It cannot be made.
        """
        self._kprod.call(
            lambda: self._kprod.engine.state.create_topic(
                name,
                partition_count=partitions,
                replication_factor=replication_factor,
                overrides=dict(settings or {}),
            )
        )

    def delete_topic(self, name: str) -> None:
        """Take a topic out; made again, it has another id."""
        self._kprod.call(lambda: self._kprod.engine.state.delete_topic(name))

    def records(self, topic: str) -> dict[int, list[Record]]:
        """All records that the log holds, by partition, those not yet replicated too.

        Returns:
            Records in order of offset, by partition.

        Raises:
            Refused: The topic is unknown.
        """
        encoded = self.batches(topic)
        return {
            index: [record for piece in pieces for record in read_records(piece)]
            for index, pieces in encoded.items()
        }

    def batches(self, topic: str) -> dict[int, list[bytes]]:
        """The batches of a topic as they are stored, by partition."""
        return self._kprod.call(
            lambda: {
                partition.name.partition: [bytes(it.view) for it in partition.log.batches()]
                for partition in self._kprod.engine.topic(topic).partitions
            }
        )

    def describe(self, topic: str, partition: int) -> PartitionView:
        """A partition's leader, replicas and offsets."""
        return self._kprod.call(
            lambda: PartitionView.of(self._kprod.engine.partition(topic, partition))
        )

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Let another broker lead.

        Args:
            topic: Of the partition.
            partition: Its index.
            to: A broker that runs. If its replica is behind, the rest of the log is lost; if it has
                none, it takes the old leader's.

        Raises:
            Refused: The partition is unknown or the broker does not run.
        """

        def move() -> None:
            if not self._kprod.engine.state.is_alive(to):
                raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {to} does not run")
            self._kprod.engine.partition(topic, partition).lead(to)
            self._kprod.engine.state.recount()

        self._kprod.call(move)

    def truncate(self, topic: str, partition: int, to_offset: int) -> None:
        """Lose every batch that reaches `to_offset`, acknowledged or not, on all replicas."""

        def cut() -> None:
            self._kprod.engine.partition(topic, partition).truncate(to_offset)
            self._kprod.engine.state.recount()

        self._kprod.call(cut)

    def set_follower_lag(self, topic: str, partition: int, broker: int, lag_ms: int | None) -> None:
        """Let a follower copy `lag_ms` after each append; 0 at once, None not at all."""
        self._kprod.call(
            lambda: self._kprod.engine.partition(topic, partition).set_lag(broker, lag_ms)
        )

    def catch_up(self, topic: str, partition: int, broker: int) -> None:
        """Let a held follower copy everything, once."""
        self._kprod.call(lambda: self._kprod.engine.partition(topic, partition).catch_up(broker))

    def stop_broker(self, broker: int) -> None:
        """Close a broker's connections and refuse new ones; its leaderships move."""

        def stop() -> None:
            self._kprod.engine.brokers[broker].stop()
            self._kprod.engine.state.broker_stopped(broker)

        self._kprod.call(stop)

    def start_broker(self, broker: int) -> None:
        """Let a stopped broker run again, on the same port; it catches up and joins."""

        def start() -> None:
            self._kprod.engine.brokers[broker].start()
            self._kprod.engine.state.broker_started(broker)

        self._kprod.call(start)

    def disconnect_clients(self, broker: int) -> None:
        """Close every connection of a broker; it continues running."""
        self._kprod.call(lambda: self._kprod.engine.brokers[broker].disconnect_all("on demand"))

    def forget_topic(self, topic: str) -> None:
        """Let Metadata deny a topic that is there."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.add(topic))

    def remember_topic(self, topic: str) -> None:
        """Let Metadata tell of a forgotten topic again."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.discard(topic))

    def throttle(self, api: int, throttle_time_ms: int) -> None:
        """Tell clients of an API to wait, and take nothing from them meanwhile; 0 ends it."""
        self._kprod.call(lambda: self._kprod.engine.throttles.update({int(api): throttle_time_ms}))

    def groups(self) -> list[GroupView]:
        """All groups, by id: state, generation, members with their assignments, offsets."""
        return self._kprod.call(self._kprod.engine.state.groups.views)

    def group(self, group_id: str) -> GroupView:
        """One group as it is now; `Refused` is raised if it is unknown."""
        return self._kprod.call(lambda: self._kprod.engine.state.groups.view(group_id))

    def expire_member(self, group_id: str, member: str) -> None:
        """Let a member's session be over now; `member` is its id or its instance id.

        Raises:
            Refused: Group or member is unknown.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.expire_member(group_id, member))

    def rebalance(self, group_id: str) -> None:
        """Let a group rebalance now, as if a member had joined again.

        Raises:
            Refused: It is unknown, or has no members.
        """
        self._kprod.call(lambda: self._kprod.engine.state.groups.rebalance(group_id))

    def move_coordinator(self, group_id: str, *, to: int) -> None:
        """Let another broker coordinate a group, and all others of its offsets partition.

        Args:
            group_id: Known or not; `__consumer_offsets` is made if it is not there.
            to: A broker that runs; see `move_leader`.

        Raises:
            Refused: The broker does not run.
        """
        groups = self._kprod.engine.state.groups
        self.move_leader(*self._kprod.call(lambda: groups.partition_of(group_id).name), to=to)
