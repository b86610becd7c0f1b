"""State shared by all brokers of a cluster: brokers, topics, producer ids, clock, waiting requests.

The brokers run in one process and share this object, where Kafka's brokers get the same from their
controller. There is no lag between them.

Thread-safety: the broker's thread.
Source: kprod's own; Kafka's KRaft controller for the roles.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from kprod._core.timer.timer_task import TimerTask
from kprod.broker.config import EmbeddedConfig
from kprod.broker.fetch_sessions import FetchSessions
from kprod.broker.group.coordinator import GroupCoordinator
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.broker.log.cleaning.cleaner import CleanerSettings, LogCleaner
from kprod.broker.log.partition_logs import MemoryLogs, PartitionLogs
from kprod.broker.log.segment_rules import SegmentRules
from kprod.broker.metadata_file import ClusterFacts, TopicFacts
from kprod.broker.producer_ids import ProducerIds
from kprod.broker.rejection import DirectoryRejected, Rejected
from kprod.broker.replication import NO_LEADER, Partition
from kprod.broker.sasl.identities import Identities
from kprod.broker.security.broker_security import BrokerSecurity
from kprod.broker.topic import Topic
from kprod.broker.topic_checks import check_assignment
from kprod.broker.topic_config import TopicConfig
from kprod.broker.topic_settings import IdleSettings
from kprod.broker.topics import TopicRegistry
from kprod.broker.upkeep import OFF_MS, Upkeep
from kprod.clock import Clock
from kprod.model import Node, TopicPartition
from kprod.protocol.error_table import ErrorCode
from kprod.timer.purgatory import Purgatory
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod.broker.delayed.delayed_delete import DelayedDelete
    from kprod.broker.delayed.delayed_fetch import DelayedFetch
    from kprod.broker.delayed.delayed_produce import DelayedProduce

CLUSTER_ID = "kprod-embedded-cluster"
_UNBOUNDED = 2**63 - 1


class ClusterState:
    """The shared state of a cluster's brokers.

    Attributes:
        config: The cluster's settings.
        clock: The wall clock for timestamps.
        timer: Timer for all delays; `EmbeddedCluster.step` advances it.
        nodes: Address of each broker, by id.
        topics: All topics.
        cleaner: Compacts the logs.
        upkeep: Applies retention, and expires producers.
        waiting_produces: Produce requests with acks=all that wait for followers.
        waiting_fetches: Fetches that wait for bytes.
        waiting_deletes: DeleteRecords requests that wait for followers.
        fetch_sessions: Fetch sessions of each broker, by its id.
        forgotten_topics: Topics that Metadata responses omit.
        log_bytes: Total size of all logs.
        logs: Provides the partitions' logs.
        groups: The group coordinator.
        producer_ids: Assigns producer ids.
        soon_actions: Functions to call in the next step.
        security: Required TLS, logins and rights.
        identities: The users and tokens that may log in.
    """

    __slots__ = (
        "_alive",
        "_idle_settings",
        "cleaner",
        "clock",
        "config",
        "fetch_sessions",
        "forgotten_topics",
        "groups",
        "identities",
        "log_bytes",
        "logs",
        "nodes",
        "producer_ids",
        "security",
        "soon_actions",
        "timer",
        "topics",
        "upkeep",
        "waiting_deletes",
        "waiting_fetches",
        "waiting_produces",
    )

    def __init__(
        self,
        config: EmbeddedConfig,
        clock: Clock,
        node_ids: list[int],
        security: BrokerSecurity | None = None,
    ) -> None:
        """Create a cluster without topics, with all brokers running."""
        self.config: EmbeddedConfig = config
        self.security: BrokerSecurity = security or BrokerSecurity()
        self.identities: Identities = Identities(self.security, clock)
        self.clock: Clock = clock
        self.timer: Timer = Timer(clock.now_ms(), is_vital=True)
        self.nodes: dict[int, Node] = {}
        self._alive = set(node_ids)
        self.logs: PartitionLogs = MemoryLogs(clock)
        self.topics: TopicRegistry = TopicRegistry(
            config,
            node_ids,
            make_partition=self._make_partition,
            save=self.write_down,
            drop_log=self._drop_log,
        )
        self.waiting_produces: Purgatory[DelayedProduce] = Purgatory("produce", self.timer)
        self.waiting_fetches: Purgatory[DelayedFetch] = Purgatory("fetch", self.timer)
        self.waiting_deletes: Purgatory[DelayedDelete] = Purgatory("delete-records", self.timer)
        self.fetch_sessions: defaultdict[int, FetchSessions] = defaultdict(FetchSessions)
        self.forgotten_topics: set[str] = set()
        self.log_bytes: int = 0
        self.soon_actions: deque[Callable[[], object]] = deque()
        self.producer_ids: ProducerIds = ProducerIds(self.write_down)
        self.upkeep: Upkeep = Upkeep(self)
        self._idle_settings = IdleSettings(
            {"flush.ms"} if config.flush_scheduler_interval_ms == OFF_MS else ()
        )
        self.cleaner: LogCleaner = LogCleaner(self, CleanerSettings.of_cluster(config))
        self.groups: GroupCoordinator = GroupCoordinator(self)

    @property
    def controller_id(self) -> int:
        """The running broker with the smallest id, −1 if none runs."""
        return min(self._alive, default=-1)

    @property
    def alive_nodes(self) -> list[Node]:
        """The running brokers, by id."""
        return [self.nodes[node_id] for node_id in sorted(self._alive)]

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker runs."""
        return node_id in self._alive

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        """Call a function once, `delay_ms` from now."""
        # Relative to the clock, not to the timer, which has the time of the last step.
        self.timer.add_at(self.clock.now_ms() + delay_ms, TimerTask(action))

    def soon(self, action: Callable[[], object]) -> None:
        """Call a function once, in the next step."""
        self.soon_actions.append(action)

    def announce(self, partition: TopicPartition) -> None:
        """Check all requests that wait for a partition again."""
        key: Hashable = partition
        # Every append comes here, and most have nothing that waits.
        if self.waiting_produces.delayed_count:
            self.waiting_produces.check_and_complete(key)
        if self.waiting_fetches.delayed_count:
            self.waiting_fetches.check_and_complete(key)
        if self.waiting_deletes.delayed_count:
            self.waiting_deletes.check_and_complete(key)
        if partition.topic == OFFSETS_TOPIC:
            changed = self.topics.partition(*partition)
            if changed is not None:
                self.groups.on_partition_changed(changed)

    def note_growth(self, *, compacts: bool) -> None:
        """Schedule retention, compaction and producer expiry for a log that has grown.

        Args:
            compacts: Whether the log is compacted.
        """
        self.upkeep.arm()
        if compacts:
            self.cleaner.arm()

    @property
    def replica_lag_time_max_ms(self) -> int:
        """Time after which a lagging follower leaves the in-sync set, in milliseconds."""
        return self.config.replica_lag_time_max_ms

    @property
    def log_bytes_max(self) -> int:
        """Size limit of all logs; logs on disk have none."""
        return _UNBOUNDED if self.logs.is_durable else self.config.log_bytes_max

    def load(self) -> None:
        """Load the partitions in the logs' directories.

        Raises:
            DirectoryRejected: A directory belongs to another cluster or cannot be used.
            OSError: A file cannot be read or written.
        """
        facts = self.logs.open(self._rules_of)
        if facts is None:
            self.write_down()
            return
        self.producer_ids.continue_at(facts.next_producer_id)
        for written in facts.topics:
            self._restore(written)
        self.topics.created_count = facts.created_count
        self.recount()
        self.upkeep.start()
        self.cleaner.start()
        self.groups.start()

    def close(self) -> None:
        """Sync all logs and write the metadata that a restart needs.

        Raises:
            OSError: Something cannot be written.
        """
        self.cleaner.close()
        self.producer_ids.give_back()
        self.logs.close(self._facts())

    def create_topic(  # a topic's own facts, by keyword
        self,
        name: str,
        *,
        partition_count: int = -1,
        replication_factor: int = -1,
        overrides: dict[str, str | None] | None = None,
        assignment: list[list[int]] | None = None,
        dry_run: bool = False,
    ) -> Topic:
        """Create a topic; the cluster's defaults apply to settings that are not given.

        Args:
            name: A valid, unused name.
            partition_count: −1 takes `default_partitions`.
            replication_factor: −1 takes `default_replication_factor`; at most the number of
                brokers.
            overrides: Settings by Kafka's dotted names.
            assignment: Brokers of each partition, instead of the two numbers.
            dry_run: Only validate.

        Returns:
            The topic; a dry run returns it without partitions and does not register it.

        Raises:
            Rejected: The topic cannot be created.
            ConfigError: A setting's value is invalid.
        """
        config = TopicConfig.of_cluster(self.config).with_overrides(overrides or {})
        if assignment is not None:
            partition_count, replication_factor = len(assignment), len(assignment[0])
            check_assignment(assignment, max(replication_factor, 1), self.topics.node_ids)
        if partition_count == -1:
            partition_count = self.config.default_partitions
        if replication_factor == -1:
            replication_factor = min(self.config.default_replication_factor, len(self.nodes))
        topic = self.topics.create(
            name,
            partition_count=partition_count,
            replication_factor=replication_factor,
            config=config,
            overrides=overrides,
            assignment=assignment,
            dry_run=dry_run,
        )
        if not dry_run:
            self._idle_settings.warn_of(overrides or {})
        return topic

    def alter_topic(
        self, name: str, overrides: dict[str, str | None], *, dry_run: bool = False
    ) -> None:
        """Replace a topic's settings; they take effect immediately.

        Args:
            name: Name of the topic.
            overrides: Settings by Kafka's dotted names; all others return to the cluster's.
            dry_run: Only validate.

        Raises:
            Rejected: The topic is unknown, the settings have too much text, or they cannot be
                stored.
            ConfigError: A setting is unknown or its value is invalid.
        """
        topic = self.topics.get(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        config = TopicConfig.of_cluster(self.config).with_overrides(overrides)
        self.topics.configure(topic, config, overrides, dry_run=dry_run)
        if not dry_run:
            self._idle_settings.warn_of(overrides)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and complete the requests that wait for it.

        Raises:
            Rejected: The topic is unknown.
        """
        topic = self.topics.delete(name)
        for partition in topic.partitions:
            self._drop_log(partition.name)
        self.log_bytes -= sum(partition.log.size_bytes for partition in topic.partitions)
        for partition in topic.partitions:
            partition.leader_id = NO_LEADER
            self.announce(partition.name)
        self.groups.on_topic_deleted(topic)

    def broker_stopped(self, node_id: int) -> None:
        """Remove a broker from all in-sync sets and move its leaderships."""
        self._alive.discard(node_id)
        self.fetch_sessions[node_id].clear()
        for partition in self.topics.partitions():
            partition.broker_stopped(node_id)

    def broker_started(self, node_id: int) -> None:
        """Let a broker catch up, and lead the partitions that only it may lead."""
        self._alive.add(node_id)
        for partition in self.topics.partitions():
            partition.broker_started(node_id)

    def recount(self) -> None:
        """Recalculate the size of all logs, after truncations."""
        self.log_bytes = sum(partition.log.size_bytes for partition in self.topics.partitions())

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of all partitions."""
        return {it.name: it.high_watermark for it in self.topics.partitions()}

    def write_down(self) -> None:
        """Store topics, settings and producer ids, if logs are on disk; called before the response.

        Raises:
            OSError: A file cannot be written.
        """
        if self.logs.is_durable:
            self.logs.write_down(self._facts())

    def _drop_log(self, partition: TopicPartition) -> None:
        # Read `logs` on each call: the engine sets it after the topic registry is created.
        self.logs.drop(partition)

    def _make_partition(self, topic: Topic, index: int) -> Partition:
        name = TopicPartition(topic.name, index)
        return Partition(
            name,
            topic.assignment[index],
            topic.config,
            log=self.logs.log_of(name, topic.topic_id),
            context=self,
            leader_epoch=topic.first_epochs.get(index, 0),
        )

    def _rules_of(self, written: TopicFacts) -> SegmentRules:
        config = TopicConfig.of_cluster(self.config).with_overrides(written.settings)
        return SegmentRules.of_topic(config, is_durable=True)

    def _restore(self, written: TopicFacts) -> None:
        missing = sorted(
            {it for nodes in written.assignment for it in nodes} - set(self.topics.node_ids)
        )
        if missing:
            raise DirectoryRejected(
                f"topic {written.name!r} has replicas on brokers {missing}, and the cluster has "
                f"brokers {sorted(self.topics.node_ids)}; start it with as many brokers as before"
            )
        config = TopicConfig.of_cluster(self.config).with_overrides(written.settings)
        topic = Topic(
            written.name,
            written.topic_id,
            config,
            overrides=written.settings,
            replication_factor=len(written.assignment[0]),
            partition_count=len(written.assignment),
        )
        topic.first_epochs = {at: it + 1 for at, it in enumerate(written.leader_epochs)}
        self.topics.restore(topic, written.assignment)

    def _facts(self) -> ClusterFacts:
        topics = [
            TopicFacts(
                name=topic.name,
                topic_id=topic.topic_id,
                settings=topic.overrides,
                assignment=topic.assignment,
                leader_epochs=[it.leader_epoch for it in topic.partitions]
                + [0] * (len(topic.assignment) - len(topic.partitions)),
            )
            for topic in self.topics
        ]
        return ClusterFacts(
            topics=topics,
            created_count=self.topics.created_count,
            next_producer_id=self.producer_ids.end,
        )
