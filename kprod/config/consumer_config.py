"""The consumer's half of the table of settings; the other half, what any client has, is inherited.

A row is here only if something uses it.

Thread-safety: immutable.
Source: Kafka's ConsumerConfig and CommonClientConfigs (clients 4.3.1), KIP-74, KIP-227, KIP-392,
KIP-1106; defaults that differ from Kafka's say why in their text.
"""

from collections.abc import Mapping
from typing import Any, Self

from kprod.config.client_config import DELAY, TIMEOUT, ClientConfig
from kprod.config.consumer_kinds import (
    AssignorList,
    ConsumerInterceptorList,
    GroupName,
    ResetPolicy,
    ResetPolicyKind,
)
from kprod.config.foreign_consumer import consumer_advice_for
from kprod.config.kinds import Choice, ClientId, Flag, Function, Whole
from kprod.config.reading import read_settings
from kprod.config.rules import settle_consumer
from kprod.config.security_config import SecurityConfig, is_security_name
from kprod.config.setting import Group
from kprod.config.settings_slices import FetchSettings, GroupSettings
from kprod.config.settings_table import MISSING, field, row, rows
from kprod.interfaces import ConsumerInterceptor, Deserializer, PartitionAssignor


class ConsumerConfig(ClientConfig):
    """Every setting of a consumer, checked; made by `parse`.

    Thread-safety: immutable.
    """

    auto_offset_reset: ResetPolicy = field(
        default=ResetPolicy("latest"),
        metadata=row(
            "auto.offset.reset",
            ResetPolicyKind(),
            Group.READING,
            "Starting position in a partition without a position, or whose position is no longer in"
            " the log: the first record, the end of the log, or the first record with a timestamp"
            " within a duration before now; `none` raises `NoOffset`.",
        ),
    )
    isolation_level: str = field(
        default="read_uncommitted",
        metadata=row(
            "isolation.level",
            Choice(choices=("read_uncommitted", "read_committed")),
            Group.READING,
            "`read_committed` gives no record of a transaction that is open or was aborted, and"
            " reads up to the first open one.",
        ),
    )
    max_poll_records: int = field(
        default=500,
        metadata=row(
            "max.poll.records",
            Whole(minimum=1, reason="a poll that may return nothing would never progress"),
            Group.READING,
            "The most records that one `poll` returns, if it is not told otherwise.",
        ),
    )
    consumer_timeout_ms: int = field(
        default=-1,
        metadata=row(
            None,
            Whole(minimum=-1, reason="-1 waits for ever"),
            Group.READING,
            "Iteration ends when no record has come for this time; -1 never ends it. kafka-python's"
            " setting.",
            unit="ms",
        ),
    )
    default_api_timeout_ms: int = field(
        default=60_000,
        metadata=row(
            "default.api.timeout.ms",
            TIMEOUT,
            Group.READING,
            "The longest that a call such as `position` or `offsets_for_times` waits, if it is not"
            " told otherwise.",
            unit="ms",
        ),
    )
    exclude_internal_topics: bool = field(
        default=True,
        metadata=row(
            "exclude.internal.topics",
            Flag(),
            Group.READING,
            "Reject an internal topic that is to be read as a whole; its partitions can always be"
            " assigned.",
        ),
    )
    key_deserializer: Deserializer | None = field(
        default=None,
        metadata=row(
            "key.deserializer",
            Function(),
            Group.READING,
            "Called with each key that is not null. None: keys are bytes.",
        ),
    )
    value_deserializer: Deserializer | None = field(
        default=None,
        metadata=row(
            "value.deserializer",
            Function(),
            Group.READING,
            "Called with each value that is not null. None: values are bytes.",
        ),
    )
    value_type: str = field(
        default="bytes",
        metadata=row(
            None,
            Choice(choices=("bytes", "memoryview")),
            Group.READING,
            "Type of keys and values: `memoryview` copies nothing, but each record keeps the whole"
            " block that it was read from, which does not count in `fetch_buffer_memory`.",
        ),
    )
    interceptors: tuple[ConsumerInterceptor, ...] = field(
        default=(),
        metadata=row(
            "interceptor.classes",
            ConsumerInterceptorList(),
            Group.READING,
            "Objects that see the records that `poll` and the iterator hand out.",
        ),
    )
    group_id: str = field(
        default="",
        metadata=row(
            "group.id",
            GroupName(),
            Group.GROUPS,
            "The consumer group: its members share the partitions of the topics that they subscribe"
            " to, and each group gets all records. Empty: `subscribe` reads every partition, and"
            " nothing is committed.",
        ),
    )
    group_instance_id: str = field(
        default="",
        metadata=row(
            "group.instance.id",
            GroupName(),
            Group.GROUPS,
            "Makes a static member (KIP-345): one that is closed and started again within"
            " `session_timeout_ms` gets its partitions again without a rebalance. Unique in the"
            " group.",
        ),
    )
    partition_assignment_strategy: tuple[str | PartitionAssignor, ...] = field(
        default=("range", "cooperative-sticky"),
        metadata=row(
            "partition.assignment.strategy",
            AssignorList(names=("range", "roundrobin", "sticky", "cooperative-sticky")),
            Group.GROUPS,
            "Assignors in order of preference; the group uses one that all members have. Members"
            " keep their partitions during a rebalance if all of them are cooperative.",
        ),
    )
    session_timeout_ms: int = field(
        default=45_000,
        metadata=row(
            "session.timeout.ms",
            TIMEOUT,
            Group.GROUPS,
            "A member without a heartbeat for this long loses its partitions. Brokers accept 6 s to"
            " 30 min by default.",
            unit="ms",
        ),
    )
    heartbeat_interval_ms: int = field(
        default=3_000,
        metadata=row(
            "heartbeat.interval.ms",
            TIMEOUT,
            Group.GROUPS,
            "Time between heartbeats, at most a third of `session_timeout_ms`. A member learns of a"
            " rebalance by a heartbeat's response.",
            unit="ms",
        ),
    )
    max_poll_interval_ms: int = field(
        default=300_000,
        metadata=row(
            "max.poll.interval.ms",
            TIMEOUT,
            Group.GROUPS,
            "The longest time between two polls, or two records of an iteration: then the member"
            " leaves the group, and others get its partitions. `progress()` counts as a poll. Also"
            " the time that members have to join a rebalance.",
            unit="ms",
        ),
    )
    enable_auto_commit: bool = field(
        default=True,
        metadata=row(
            "enable.auto.commit",
            Flag(),
            Group.GROUPS,
            "Commit positions every `auto_commit_interval_ms`, before partitions are given up, and"
            " in `close`: never beyond the records that the application has asked past.",
        ),
    )
    auto_offset_store: bool = field(
        default=True,
        metadata=row(
            "enable.auto.offset.store",
            Flag(),
            Group.GROUPS,
            "False: automatic commits, and commits without offsets, take only the offsets that the"
            " application has given to `store_offsets`. confluent-kafka's setting.",
        ),
    )
    auto_commit_interval_ms: int = field(
        default=5_000,
        metadata=row(
            "auto.commit.interval.ms",
            DELAY,
            Group.GROUPS,
            "Time between automatic commits.",
            unit="ms",
        ),
    )
    fetch_buffer_memory: int = field(
        default=64 * 1024 * 1024,
        metadata=row(
            None,
            Whole(
                minimum=64 * 1024,
                maximum=2**40,
                reason="less than 64 KiB holds no usual batch, more than 1 TiB is a typing error",
            ),
            Group.FETCHING,
            "Memory for responses that are asked for or wait to be read, of all partitions"
            " together. It may be exceeded by one batch of each broker, which a broker returns"
            " whole though less was asked for (KIP-74); a batch larger than all of it is read"
            " alone.",
            unit="bytes",
        ),
    )
    fetch_min_bytes: int = field(
        default=1,
        metadata=row(
            "fetch.min.bytes",
            Whole(minimum=0, reason="0 is answered at once"),
            Group.FETCHING,
            "A broker answers a fetch once it has this much, or after `fetch_max_wait_ms`.",
            unit="bytes",
        ),
    )
    fetch_max_wait_ms: int = field(
        default=500,
        metadata=row(
            "fetch.max.wait.ms",
            DELAY,
            Group.FETCHING,
            "The longest that a broker waits for `fetch_min_bytes`; below `request_timeout_ms`,"
            " since the other requests of the connection wait, too. The one of the two that was"
            " not set gives way, with a line in the log.",
            unit="ms",
        ),
    )
    fetch_max_bytes: int = field(  # type: ignore[misc]  # 0 for clients that fetch nothing
        default=50 * 1024 * 1024,
        metadata=row(
            "fetch.max.bytes",
            Whole(minimum=1, reason="a response without any record would be no progress"),
            Group.FETCHING,
            "The most bytes of one response; a single batch may be larger.",
            unit="bytes",
        ),
    )
    max_partition_fetch_bytes: int = field(
        default=4 * 1024 * 1024,
        metadata=row(
            "max.partition.fetch.bytes",
            Whole(minimum=1, reason="a response without any record would be no progress"),
            Group.FETCHING,
            "The most bytes of one partition in a response; a single batch may be larger. Kafka's"
            " 1 MiB makes four times as many responses, and beside a busy application each waits"
            " up to 5 ms for the GIL.",
            unit="bytes",
        ),
    )
    check_crcs: bool = field(
        default=True,
        metadata=row(
            "check.crcs",
            Flag(),
            Group.FETCHING,
            "Compare the checksum of each batch with its bytes.",
        ),
    )
    client_rack: str = field(
        default="",
        metadata=row(
            "client.rack",
            ClientId(),
            Group.FETCHING,
            "Rack of this client, as in the brokers' `broker.rack`: it reads from replicas in that"
            " rack, if the brokers' `replica.selector.class` supports it.",
        ),
    )
    allow_auto_create_topics: bool = field(
        default=False,
        metadata=row(
            "allow.auto.create.topics",
            Flag(),
            Group.CLUSTER,
            "Let the broker create an unknown topic. Kafka's default is true; a reader that makes"
            " the topic hides the typing error.",
        ),
    )
    receive_buffer_bytes: int = field(
        default=-1,
        metadata=row(
            "receive.buffer.bytes",
            Whole(minimum=-1, reason="-1 leaves it to the operating system"),
            Group.NETWORK,
            "The socket's receive buffer (SO_RCVBUF); -1 lets the system grow it as needed. Kafka's"
            " 65,536 takes a sixty-fourth of a response at a time.",
            unit="bytes",
        ),
    )

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Check settings as an application wrote them.

        Args:
            settings: Names as here (`fetch_max_bytes`) or as in Kafka (`fetch.max.bytes`); numbers
                and flags also as texts ("5", "true"), as in a properties file.

        Returns:
            The configuration, complete and consistent.

        Raises:
            ConfigError: A setting is unknown, wrong, out of bounds, given twice with different
                values, missing, or contradicts another; the text says which and what to do.
        """
        plain = {name: value for name, value in settings.items() if not is_security_name(name)}
        secured = {name: value for name, value in settings.items() if is_security_name(name)}
        given = read_settings(cls, plain, consumer_advice_for)
        defaults: dict[str, Any] = {
            name: default for name, _, default in rows(cls) if default is not MISSING
        }
        config = cls(**settle_consumer(given, defaults), security=SecurityConfig.parse(secured))
        config.check_cleartext()
        return config

    def fetch_settings(self) -> FetchSettings:
        """Return what fetching uses."""
        return self.part(FetchSettings)

    def group_settings(self) -> GroupSettings:
        """Return what membership and commits use."""
        return self.part(GroupSettings)
