"""How topics' and brokers' settings are told, in DescribeConfigs and in CreateTopics.

Thread-safety: pure functions.
Source: Kafka ConfigHelper, ReplicationControlManager; types and defaults from Kafka 4.3.1.
"""

import functools
from typing import Any, NamedTuple

from kprod.broker.config import EmbeddedConfig
from kprod.broker.topic import Topic
from kprod.broker.topic_settings import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    TOPIC_SETTINGS,
    parse_setting,
    value_text,
)
from kprod.model import Node

OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5


class Told(NamedTuple):
    """One setting as it is told.

    Attributes:
        name: Kafka's dotted name.
        value: As text.
        source: One of the numbers above.
        kind: As `topic_settings` numbers them.
        read_only: Whether no request could change it in Kafka.
    """

    name: str
    value: str
    source: int
    kind: int
    read_only: bool


def topic_settings(topic: Topic) -> list[Told]:
    """All settings that Kafka has for a topic, sorted by name.

    Args:
        topic: Made or only checked.

    Returns:
        Its own, the cluster's, and Kafka's defaults for the others.
    """
    effective = topic.config.described()
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
        told.append(Told(name, value, source, kind, read_only=False))
    return told


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
        Told(name, _text(value), OF_BROKER, kind, read_only=True)
        for name, (kind, value) in {**own, **here}.items()
    ]
    told += [
        Told(name, value, DEFAULT, kind, read_only=True)
        for name, (kind, value) in _FIXED_SETTINGS.items()
    ]
    return sorted(told)


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
def described_fields(told: Told) -> dict[str, Any]:
    """A setting as DescribeConfigs answers it; shared likewise."""
    return {
        **created_fields(told),
        "synonyms": [],
        "config_type": told.kind,
        "documentation": None,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIELD_OF_SETTING = {
    "auto.create.topics.enable": (BOOLEAN, "auto_create_topics"),
    "connections.max.idle.ms": (LONG, "connections_max_idle_ms"),
    "default.replication.factor": (INT, "default_replication_factor"),
    "fetch.max.bytes": (INT, "fetch_bytes_max"),
    "log.message.timestamp.after.max.ms": (LONG, "message_timestamp_after_max_ms"),
    "log.message.timestamp.type": (STRING, "message_timestamp_type"),
    "log.cleanup.policy": (LIST, "cleanup_policy"),
    "log.flush.interval.messages": (LONG, "flush_messages"),
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
"""What exists here, under Kafka's name."""

_FIXED_SETTINGS = {
    "compression.type": (STRING, "producer"),
    "delete.topic.enable": (BOOLEAN, "true"),
    "max.incremental.fetch.session.cache.slots": (INT, "0"),
    "unclean.leader.election.enable": (BOOLEAN, "false"),
}
"""How this broker behaves, which nothing can change."""
