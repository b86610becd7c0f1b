"""Describes topics' and brokers' settings in DescribeConfigs and CreateTopics responses.

Thread-safety: pure functions.
Source: Kafka ConfigHelper, ReplicationControlManager; types and defaults from Kafka 4.3.1.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kprod.broker.config import EmbeddedConfig
from kprod.broker.topic import Topic
from kprod.broker.topic_config import TopicConfig
from kprod.broker.topic_settings import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    TOPIC_SETTINGS,
    TopicSetting,
    parse_setting,
    value_text,
)
from kprod.model import Node

OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5


class Synonym(NamedTuple):
    """A value that a setting has, or would have if the one before it were deleted.

    Attributes:
        name: Name of the setting; the broker's names differ from the topics'.
        value: Value as text.
        source: Number of the value's source; one of the constants above.
    """

    name: str
    value: str
    source: int


class Told(NamedTuple):
    """One setting as it is told.

    Attributes:
        name: Kafka's dotted name.
        value: Value as text.
        source: One of the numbers above.
        kind: Number of the value's type, as in `topic_settings`.
        read_only: Whether no request could change it in Kafka.
        synonyms: The one that holds first.
    """

    name: str
    value: str
    source: int
    kind: int
    read_only: bool
    synonyms: tuple[Synonym, ...] = ()


def topic_settings(topic: Topic, config: EmbeddedConfig) -> list[Told]:
    """All settings that Kafka has for a topic, sorted by name.

    Args:
        topic: Made or only checked.
        config: The cluster's.

    Returns:
        Its own, the cluster's, and Kafka's defaults for the others.
    """
    effective = topic.config.described()
    cluster = TopicConfig.of_cluster(config).described()
    told = []
    for name, setting in TOPIC_SETTINGS.items():
        kind, default = setting.kind, setting.default
        own = topic.overrides.get(name)
        value = effective.get(name)
        if value is None:
            value = default if own is None else value_text(parse_setting(name, own))
        source = OF_TOPIC if own is not None else DEFAULT
        if source == DEFAULT and value != default:
            source = OF_BROKER
        synonyms = [Synonym(name, value, OF_TOPIC)] if own is not None else []
        synonyms += _cluster_synonyms(setting, name, cluster)
        told.append(Told(name, value, source, kind, read_only=False, synonyms=tuple(synonyms)))
    return told


def _cluster_synonyms(
    setting: TopicSetting, name: str, cluster: Mapping[str, str]
) -> Iterator[Synonym]:
    """Yield the values that apply without a topic's own value."""
    broker_name, value = setting.broker_name, cluster.get(name, setting.default)
    if broker_name and value != setting.default:
        yield Synonym(broker_name, value, OF_BROKER)
    if broker_name and broker_name not in _WITHOUT_DEFAULT:
        yield Synonym(broker_name, setting.default, DEFAULT)


def broker_settings(config: EmbeddedConfig, node: Node) -> list[Told]:
    """The settings of a broker that exist here, and some of Kafka's that clients look for.

    Args:
        config: The cluster's.
        node: The broker.

    Returns:
        The settings, sorted by name.
    """
    address = f"PLAINTEXT://{node.host}:{node.port}"
    own = {
        "broker.id": (INT, node.node_id),
        "node.id": (INT, node.node_id),
        "listeners": (LIST, address),
        "advertised.listeners": (LIST, address),
    }
    here = {
        name: (kind, getattr(config, field)) for name, (kind, field) in _FIELD_OF_SETTING.items()
    }
    told = [
        _told_of_broker(name, _text(value), OF_BROKER, kind)
        for name, (kind, value) in {**own, **here}.items()
    ]
    told += [
        _told_of_broker(name, value, DEFAULT, kind)
        for name, (kind, value) in _FIXED_SETTINGS.items()
    ]
    return sorted(told)


def _told_of_broker(name: str, value: str, source: int, kind: int) -> Told:
    synonym = Synonym(name, value, source)
    return Told(name, value, source, kind, read_only=True, synonyms=(synonym,))


@functools.lru_cache(maxsize=4_096)
def created_fields(told: Told) -> dict[str, Any]:
    """A setting as CreateTopics answers it; shared, so that many topics cost little."""
    return {
        "name": told.name,
        "value": told.value,
        "read_only": told.read_only,
        "config_source": told.source,
        "is_sensitive": False,
    }


@functools.lru_cache(maxsize=4_096)
def described_fields(told: Told, *, has_synonyms: bool) -> dict[str, Any]:
    """A setting as DescribeConfigs answers it; shared likewise."""
    return {
        **created_fields(told),
        "synonyms": [it._asdict() for it in told.synonyms] if has_synonyms else [],
        "config_type": told.kind,
        "documentation": None,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# The default of another unit (hours, minutes) holds in Kafka, or that of the task.
_WITHOUT_DEFAULT = frozenset(
    {"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"}
)

_FIELD_OF_SETTING = {
    "auto.create.topics.enable": (BOOLEAN, "auto_create_topics"),
    "connections.max.idle.ms": (LONG, "connections_max_idle_ms"),
    "default.replication.factor": (INT, "default_replication_factor"),
    "fetch.max.bytes": (INT, "fetch_bytes_max"),
    "log.message.timestamp.after.max.ms": (LONG, "message_timestamp_after_max_ms"),
    "log.message.timestamp.type": (STRING, "message_timestamp_type"),
    "log.cleanup.policy": (LIST, "cleanup_policy"),
    "log.flush.interval.messages": (LONG, "flush_messages"),
    "log.flush.interval.ms": (LONG, "flush_ms"),
    "log.flush.scheduler.interval.ms": (LONG, "flush_scheduler_interval_ms"),
    "log.index.interval.bytes": (INT, "index_interval_bytes"),
    "log.index.size.max.bytes": (INT, "segment_index_bytes"),
    "log.message.timestamp.before.max.ms": (LONG, "message_timestamp_before_max_ms"),
    "log.retention.bytes": (LONG, "retention_bytes"),
    "log.retention.check.interval.ms": (LONG, "retention_check_interval_ms"),
    "log.retention.ms": (LONG, "retention_ms"),
    "log.roll.jitter.ms": (LONG, "segment_jitter_ms"),
    "log.roll.ms": (LONG, "segment_ms"),
    "log.segment.bytes": (INT, "segment_bytes"),
    "log.segment.delete.delay.ms": (LONG, "file_delete_delay_ms"),
    "producer.id.expiration.ms": (INT, "producer_id_expiration_ms"),
    "max.connections": (INT, "connections_max"),
    "message.max.bytes": (INT, "message_max_bytes"),
    "min.insync.replicas": (INT, "min_insync_replicas"),
    "num.partitions": (INT, "default_partitions"),
    "queued.max.request.bytes": (LONG, "queued_max_request_bytes"),
    "replica.lag.time.max.ms": (LONG, "replica_lag_time_max_ms"),
    "socket.request.max.bytes": (INT, "frame_bytes_max"),
}
"""Settings of `EmbeddedConfig` by Kafka's name, with their types."""

_FIXED_SETTINGS = {
    "compression.type": (STRING, "producer"),
    "delete.topic.enable": (BOOLEAN, "true"),
    "max.incremental.fetch.session.cache.slots": (INT, "0"),
    "unclean.leader.election.enable": (BOOLEAN, "false"),
}
"""Settings whose value is fixed in the embedded broker."""
