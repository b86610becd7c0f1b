"""The settings of an embedded cluster, with Kafka's names and defaults.

If a default differs from Kafka's, the field's comment says why.

Thread-safety: immutable.
Source: Kafka broker and topic configuration reference (4.3).
"""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from kprod.errors import ConfigError

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_CLEANUP_POLICIES = ("delete", "compact", "compact,delete", "delete,compact", "")


def _setting(default: int, lowest: int, highest: int) -> int:
    bounds = {"bounds": (lowest, highest)}
    value: int = dataclasses.field(default=default, metadata=bounds)
    return value


def _check_racks(racks: Sequence[object]) -> None:
    if isinstance(racks, str) or not all(isinstance(rack, str) for rack in racks):
        raise ConfigError(f"racks={racks!r:.80} is not a sequence of texts")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedConfig:
    """The settings of an embedded cluster; the same for all brokers.

    Attributes:
        host: Address to bind. Anything but loopback needs `unsafe`.
        port: Port of broker 0, the others follow; 0 takes free ones.
        advertised_host: Host that clients are told to connect to (`advertised.listeners`); empty
            for `host`. Where a port is forwarded, or between containers.
        advertised_port: Port of broker 0 that clients are told, the others follow; 0 for the bound
            ones.
        unsafe: Allow binding other than loopback. There is no authentication.
        auto_create_topics: Make a topic that metadata is asked for and that does not exist.
        describe_new_topics: Describe such a topic in the response that made it. Kafka says
            UNKNOWN_TOPIC_OR_PARTITION once, and the client asks again.
        default_partitions: Partitions of an automatically created topic.
        default_replication_factor: Copies of each partition, at most the number of brokers.
        min_insync_replicas: In-sync replicas that acks=all needs, the leader included.
        message_max_bytes: Largest record batch.
        cleanup_policy: `delete`, `compact`, both with a comma between, or empty
            (`log.cleanup.policy`).
        delete_retention_ms: How long a reader may take to see a tombstone
            (`log.cleaner.delete.retention.ms`).
        min_cleanable_dirty_ratio: Share of dirty bytes from which on a log is compacted
            (`log.cleaner.min.cleanable.ratio`).
        min_compaction_lag_ms: Age below which no record is compacted
            (`log.cleaner.min.compaction.lag.ms`).
        cleaner_dedupe_buffer_size: Bytes for the keys of one round of compaction, 24 for each
            (`log.cleaner.dedupe.buffer.size`).
        cleaner_io_max_bytes_per_second: Most that compaction reads and writes
            (`log.cleaner.io.max.bytes.per.second`).
        cleaner_backoff_ms: How often dirty logs are looked for (`log.cleaner.backoff.ms`).
        retention_bytes: Least size of one partition that stays when its oldest segments go; −1
            keeps all. In memory a segment has an eighth of it, 1 MiB at least.
        retention_ms: How long a segment stays after its newest record; −1 keeps all.
        retention_check_interval_ms: How often old segments are looked for
            (`log.retention.check.interval.ms`).
        segment_bytes: Size at which a segment ends (`log.segment.bytes`).
        segment_ms: Age at which an append ends a segment (`log.roll.ms`).
        segment_jitter_ms: Longest time by which it ends earlier, so that not all end at once
            (`log.roll.jitter.ms`).
        segment_index_bytes: Size of a segment's index at which the segment ends
            (`log.index.size.max.bytes`).
        index_interval_bytes: Bytes between two entries of an index (`log.index.interval.bytes`); in
            memory each batch has one.
        flush_messages: Records after which an append syncs (`log.flush.interval.messages`).
        flush_ms: Age of the last sync at which a log on disk is synced in the background
            (`log.flush.interval.ms`), looked at every `flush_scheduler_interval_ms`.
        flush_scheduler_interval_ms: How often that is looked at
            (`log.flush.scheduler.interval.ms`); the default never does, as Kafka's.
        file_delete_delay_ms: How long files of deleted segments and topics stay
            (`log.segment.delete.delay.ms`).
        producer_id_expiration_ms: How long a silent producer is known
            (`producer.id.expiration.ms`).
        message_timestamp_type: `CreateTime` or `LogAppendTime`.
        message_timestamp_after_max_ms: How far in the future a record may be stamped.
        message_timestamp_before_max_ms: How far in the past.
        replica_lag_time_max_ms: How long a follower may lag before it leaves the in-sync set.
        log_bytes_max: Size of all logs together past which produce is rejected.
        frame_bytes_max: Largest request (`socket.request.max.bytes`).
        connections_max: Connections of the whole cluster; more are closed at once
            (`max.connections`).
        connections_max_idle_ms: A connection that carries nothing for this time is closed
            (`connections.max.idle.ms`).
        fetch_bytes_max: Most record bytes in one fetch answer (`fetch.max.bytes`).
        decoded_request_bytes_max: Memory for the fields of one request, beyond its own bytes.
        queued_max_request_bytes: Requests of all connections together, half-sent ones, waiting ones
            and those in hand (`queued.max.request.bytes`); past it the connections without progress
            for longest are closed. At least `frame_bytes_max`.
        queued_max_response_bytes: The same for answers that clients have not read yet.
        topics_max: Topics of the cluster.
        partitions_max: Partitions of all topics together.
        topic_settings_bytes_max: Text of all topics' own settings together.
        group_min_session_timeout_ms: Shortest session timeout that a member may ask for.
        group_max_session_timeout_ms: Longest one.
        group_initial_rebalance_delay_ms: How long an empty group waits for more members after the
            first has come.
        group_max_size: Members of one group.
        group_metadata_bytes_max: Metadata of the members of all groups together; beyond it a join
            gets GROUP_MAX_SIZE_REACHED.
        offsets_topic_num_partitions: Number of partitions of `__consumer_offsets`.
        offset_metadata_max_bytes: Longest text that a client may store with an offset
            (`offset.metadata.max.bytes`); counted in characters, as Kafka does.
        offsets_retention_minutes: How long offsets are kept that nobody uses.
        offsets_retention_check_interval_ms: How often they are looked for.
        offsets_commit_timeout_ms: How long a write to `__consumer_offsets` may wait for followers.
        racks: One for each broker, in the order of their ids as given (`broker.rack`); empty for
            none. A consumer that tells its rack is sent to an in-sync replica there (KIP-392).
        coordinator_loading_ms: How long a broker that has become a coordinator answers
            COORDINATOR_LOAD_IN_PROGRESS; Kafka's depends on what there is to load.
    """

    host: str = "127.0.0.1"
    port: int = _setting(0, 0, 65_535)
    advertised_host: str = ""
    advertised_port: int = _setting(0, 0, 65_535)
    unsafe: bool = False
    auto_create_topics: bool = True
    describe_new_topics: bool = False
    default_partitions: int = _setting(1, 1, 100_000)
    # Kafka's default is 1; three makes every partition survive `stop_broker`.
    default_replication_factor: int = _setting(3, 1, 1_000)
    min_insync_replicas: int = _setting(1, 1, 1_000)
    message_max_bytes: int = _setting(1_048_588, 0, _INT32_MAX)
    cleanup_policy: str = "delete"
    delete_retention_ms: int = _setting(86_400_000, 0, _INT64_MAX)
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = _setting(0, 0, _INT64_MAX)
    # Kafka's default is 128 MiB.
    cleaner_dedupe_buffer_size: int = _setting(16 << 20, 1_024, 1 << 44)
    cleaner_io_max_bytes_per_second: int = _setting(_INT64_MAX, 1_024, _INT64_MAX)
    cleaner_backoff_ms: int = _setting(15_000, 1, _INT32_MAX)
    retention_bytes: int = _setting(-1, -1, _INT64_MAX)
    retention_ms: int = _setting(604_800_000, -1, _INT64_MAX)
    retention_check_interval_ms: int = _setting(300_000, 1, _INT32_MAX)
    segment_bytes: int = _setting(1 << 30, 1 << 20, _INT32_MAX)
    segment_ms: int = _setting(604_800_000, 1, _INT64_MAX)
    segment_jitter_ms: int = _setting(0, 0, _INT64_MAX)
    segment_index_bytes: int = _setting(10 << 20, 4, _INT32_MAX)
    index_interval_bytes: int = _setting(4_096, 0, _INT32_MAX)
    flush_messages: int = _setting(_INT64_MAX, 1, _INT64_MAX)
    flush_ms: int = _setting(_INT64_MAX, 0, _INT64_MAX)
    flush_scheduler_interval_ms: int = _setting(_INT64_MAX, 1, _INT64_MAX)
    file_delete_delay_ms: int = _setting(60_000, 0, _INT32_MAX)
    producer_id_expiration_ms: int = _setting(86_400_000, 1, _INT32_MAX)
    message_timestamp_type: str = "CreateTime"
    message_timestamp_after_max_ms: int = _setting(3_600_000, 0, _INT64_MAX)
    message_timestamp_before_max_ms: int = _setting(_INT64_MAX, 0, _INT64_MAX)
    replica_lag_time_max_ms: int = _setting(30_000, 1, _INT32_MAX)
    log_bytes_max: int = _setting(4 << 30, 1 << 20, 1 << 44)
    frame_bytes_max: int = _setting(104_857_600, 1_024, _INT32_MAX)
    # Kafka's default is 2³¹−1; each connection takes a descriptor of the process that tests.
    connections_max: int = _setting(2_000, 1, 100_000)
    connections_max_idle_ms: int = _setting(600_000, 1, _INT32_MAX)
    fetch_bytes_max: int = _setting(57_671_680, 1_024, _INT32_MAX)
    # Kafka's default is no bound, and the others have no counterpart there: a broker inside of
    # an application must not take all of its memory.
    decoded_request_bytes_max: int = _setting(32 << 20, 1_024, 1 << 44)
    queued_max_request_bytes: int = _setting(256 << 20, 1_024, 1 << 44)
    queued_max_response_bytes: int = _setting(256 << 20, 1_024, 1 << 44)
    topics_max: int = _setting(10_000, 1, 1_000_000)
    partitions_max: int = _setting(100_000, 1, 10_000_000)
    topic_settings_bytes_max: int = _setting(16 << 20, 0, 1 << 44)
    group_min_session_timeout_ms: int = _setting(6_000, 1, _INT32_MAX)
    group_max_session_timeout_ms: int = _setting(1_800_000, 1, _INT32_MAX)
    # Kafka's default is 3,000: a test should not wait for it.
    group_initial_rebalance_delay_ms: int = _setting(0, 0, _INT32_MAX)
    group_max_size: int = _setting(_INT32_MAX, 1, _INT32_MAX)
    group_metadata_bytes_max: int = _setting(64 << 20, 0, 1 << 44)
    offsets_topic_num_partitions: int = _setting(50, 1, 10_000)
    offset_metadata_max_bytes: int = _setting(4_096, 0, _INT32_MAX)
    offsets_retention_minutes: int = _setting(10_080, 1, _INT32_MAX)
    offsets_retention_check_interval_ms: int = _setting(600_000, 1, _INT64_MAX)
    offsets_commit_timeout_ms: int = _setting(5_000, 1, _INT32_MAX)
    racks: Sequence[str] = ()
    coordinator_loading_ms: int = _setting(0, 0, _INT32_MAX)

    def __post_init__(self) -> None:
        """Check every bound.

        Raises:
            ConfigError: A value is out of bounds, or the address would be open to the network.
        """
        for field in dataclasses.fields(self):
            if "bounds" in field.metadata:
                lowest, highest = field.metadata["bounds"]
                value = getattr(self, field.name)
                if not isinstance(value, int):
                    raise ConfigError(f"{field.name}={value!r} is not a whole number")
                if not lowest <= value <= highest:
                    raise ConfigError(
                        f"{field.name}={value!r} is not between {lowest} and {highest}"
                    )
        _check_racks(self.racks)
        if self.queued_max_request_bytes < self.frame_bytes_max:
            raise ConfigError(
                f"queued_max_request_bytes={self.queued_max_request_bytes} is below "
                f"frame_bytes_max={self.frame_bytes_max}: the largest request would never fit"
            )
        if self.message_timestamp_type not in TIMESTAMP_TYPES:
            raise ConfigError(
                f"message_timestamp_type={self.message_timestamp_type!r} is not one of "
                f"{', '.join(TIMESTAMP_TYPES)}"
            )
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ConfigError(
                f"min_cleanable_dirty_ratio={self.min_cleanable_dirty_ratio!r} is not between 0 "
                "and 1"
            )
        if self.cleanup_policy not in _CLEANUP_POLICIES:
            raise ConfigError(
                f"cleanup_policy={self.cleanup_policy!r} is not delete, compact, both with a comma "
                "between, or empty"
            )
        if self.host not in _LOOPBACK_HOSTS and not self.unsafe:
            raise ConfigError(
                f"host={self.host!r} would open a broker without authentication to the network; "
                "bind 127.0.0.1, or set unsafe=True if that is what you want"
            )

    @classmethod
    def of(cls, config: "EmbeddedConfig | None", settings: Mapping[str, Any]) -> "EmbeddedConfig":
        """Put together what one call was given.

        Args:
            config: Ready-made settings, if there are any.
            settings: Settings by name.

        Returns:
            `config` with `settings` in the place of its own.

        Raises:
            ConfigError: A setting is unknown or out of bounds.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                nearest = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                raise ConfigError(f"unknown setting {name!r} of an embedded cluster{hint}")
        if config is None:
            return cls(**settings)
        return dataclasses.replace(config, **settings) if settings else config
