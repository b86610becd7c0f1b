"""The settings of an embedded cluster as keyword arguments, for type checkers and editors.

Generated from `EmbeddedConfig` by `make docs`; do not edit. A program never reads it:
`EmbeddedConfig` checks settings.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict


class EmbeddedSettings(TypedDict, total=False):
    """Every setting of `EmbeddedConfig`, none of them required."""

    host: str
    """Address to bind. Anything but loopback needs `unsafe`."""

    port: int
    """Port of broker 0, the others follow; 0 takes free ones."""

    advertised_host: str
    """Host that clients are told to connect to (`advertised.listeners`); empty for `host`. Where a
    port is forwarded, or between containers."""

    advertised_port: int
    """Port of broker 0 that clients are told, the others follow; 0 for the bound ones."""

    unsafe: bool
    """Allow binding other than loopback. There is no authentication."""

    auto_create_topics: bool
    """Make a topic that metadata is asked for and that does not exist."""

    describe_new_topics: bool
    """Describe such a topic in the response that made it. Kafka says UNKNOWN_TOPIC_OR_PARTITION
    once, and the client asks again."""

    default_partitions: int
    """Partitions of an automatically created topic."""

    default_replication_factor: int
    """Copies of each partition, at most the number of brokers."""

    min_insync_replicas: int
    """In-sync replicas that acks=all needs, the leader included."""

    message_max_bytes: int
    """Largest record batch."""

    cleanup_policy: Literal["delete", "compact", "compact,delete", "delete,compact", ""]
    """`delete`, `compact`, both with a comma between, or empty (`log.cleanup.policy`)."""

    delete_retention_ms: int
    """How long a reader may take to see a tombstone (`log.cleaner.delete.retention.ms`)."""

    min_cleanable_dirty_ratio: float
    """Share of dirty bytes from which on a log is compacted (`log.cleaner.min.cleanable.ratio`)."""

    min_compaction_lag_ms: int
    """Age below which no record is compacted (`log.cleaner.min.compaction.lag.ms`)."""

    cleaner_dedupe_buffer_size: int
    """Bytes for the keys of one round of compaction, 24 for each
    (`log.cleaner.dedupe.buffer.size`)."""

    cleaner_io_max_bytes_per_second: int
    """Most that compaction reads and writes (`log.cleaner.io.max.bytes.per.second`)."""

    cleaner_backoff_ms: int
    """How often dirty logs are looked for (`log.cleaner.backoff.ms`)."""

    retention_bytes: int
    """Least size of one partition that stays when its oldest segments go; -1 keeps all. In memory a
    segment has an eighth of it, 1 MiB at least."""

    retention_ms: int
    """How long a segment stays after its newest record; -1 keeps all."""

    retention_check_interval_ms: int
    """How often old segments are looked for (`log.retention.check.interval.ms`)."""

    segment_bytes: int
    """Size at which a segment ends (`log.segment.bytes`)."""

    segment_ms: int
    """Age at which an append ends a segment (`log.roll.ms`)."""

    segment_jitter_ms: int
    """Longest time by which it ends earlier, so that not all end at once (`log.roll.jitter.ms`)."""

    segment_index_bytes: int
    """Size of a segment's index at which the segment ends (`log.index.size.max.bytes`)."""

    index_interval_bytes: int
    """Bytes between two entries of an index (`log.index.interval.bytes`); in memory each batch has
    one."""

    flush_messages: int
    """Records after which an append syncs (`log.flush.interval.messages`)."""

    flush_ms: int
    """Age of the last sync at which a log on disk is synced in the background
    (`log.flush.interval.ms`), looked at every `flush_scheduler_interval_ms`."""

    flush_scheduler_interval_ms: int
    """How often that is looked at (`log.flush.scheduler.interval.ms`); the default never does, as
    Kafka's."""

    file_delete_delay_ms: int
    """How long files of deleted segments and topics stay (`log.segment.delete.delay.ms`)."""

    producer_id_expiration_ms: int
    """How long a silent producer is known (`producer.id.expiration.ms`)."""

    message_timestamp_type: Literal["CreateTime", "LogAppendTime"]
    """`CreateTime` or `LogAppendTime`."""

    message_timestamp_after_max_ms: int
    """How far in the future a record may be stamped."""

    message_timestamp_before_max_ms: int
    """How far in the past."""

    replica_lag_time_max_ms: int
    """How long a follower may lag before it leaves the in-sync set."""

    log_bytes_max: int
    """Size of all logs together past which produce is rejected."""

    frame_bytes_max: int
    """Largest request (`socket.request.max.bytes`)."""

    connections_max: int
    """Connections of the whole cluster; more are closed at once (`max.connections`)."""

    connections_max_idle_ms: int
    """A connection that carries nothing for this time is closed (`connections.max.idle.ms`)."""

    fetch_bytes_max: int
    """Most record bytes in one fetch answer (`fetch.max.bytes`)."""

    decoded_request_bytes_max: int
    """Memory for the fields of one request, beyond its own bytes."""

    queued_max_request_bytes: int
    """Requests of all connections together, half-sent ones, waiting ones and those in hand
    (`queued.max.request.bytes`); past it the connections without progress for longest are closed.
    At least `frame_bytes_max`."""

    queued_max_response_bytes: int
    """The same for answers that clients have not read yet."""

    topics_max: int
    """Topics of the cluster."""

    partitions_max: int
    """Partitions of all topics together."""

    topic_settings_bytes_max: int
    """Text of all topics' own settings together."""

    group_min_session_timeout_ms: int
    """Shortest session timeout that a member may ask for."""

    group_max_session_timeout_ms: int
    """Longest one."""

    group_initial_rebalance_delay_ms: int
    """How long an empty group waits for more members after the first has come."""

    group_max_size: int
    """Members of one group."""

    group_metadata_bytes_max: int
    """Metadata of the members of all groups together; beyond it a join gets
    GROUP_MAX_SIZE_REACHED."""

    offsets_topic_num_partitions: int
    """Number of partitions of `__consumer_offsets`."""

    offset_metadata_max_bytes: int
    """Longest text that a client may store with an offset (`offset.metadata.max.bytes`); counted in
    characters, as Kafka does."""

    offsets_retention_minutes: int
    """How long offsets are kept that nobody uses."""

    offsets_retention_check_interval_ms: int
    """How often they are looked for."""

    offsets_commit_timeout_ms: int
    """How long a write to `__consumer_offsets` may wait for followers."""

    racks: Sequence[str]
    """One for each broker, in the order of their ids as given (`broker.rack`); empty for none. A
    consumer that tells its rack is sent to an in-sync replica there (KIP-392)."""

    coordinator_loading_ms: int
    """How long a broker that has become a coordinator answers COORDINATOR_LOAD_IN_PROGRESS; Kafka's
    depends on what there is to load."""
