"""The settings that Kafka has for a topic: types, defaults, and which have an effect here.

A setting without effect is accepted and told again, so that scripts written for Kafka run; the page
of the embedded broker lists them (`settings_without_effect`).

Thread-safety: constants.
Source: Kafka LogConfig (4.3.1), whose responses to DescribeConfigs these are.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kinds of values, as DescribeConfigs numbers them."""


class TopicSetting(NamedTuple):
    """One setting.

    Attributes:
        kind: One of the numbers above.
        default: Kafka's, as text.
    """

    kind: int
    default: str


_LONG_MAX = str(2**63 - 1)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = {
    "cleanup.policy": TopicSetting(LIST, "delete"),
    "compression.gzip.level": TopicSetting(INT, "-1"),
    "compression.lz4.level": TopicSetting(INT, "9"),
    "compression.type": TopicSetting(STRING, "producer"),
    "compression.zstd.level": TopicSetting(INT, "3"),
    "delete.retention.ms": TopicSetting(LONG, "86400000"),
    "file.delete.delay.ms": TopicSetting(LONG, "60000"),
    "flush.messages": TopicSetting(LONG, _LONG_MAX),
    "flush.ms": TopicSetting(LONG, _LONG_MAX),
    "follower.replication.throttled.replicas": TopicSetting(LIST, ""),
    "index.interval.bytes": TopicSetting(INT, "4096"),
    "leader.replication.throttled.replicas": TopicSetting(LIST, ""),
    "local.retention.bytes": TopicSetting(LONG, "-2"),
    "local.retention.ms": TopicSetting(LONG, "-2"),
    "max.compaction.lag.ms": TopicSetting(LONG, _LONG_MAX),
    "max.message.bytes": TopicSetting(INT, "1048588"),
    "message.timestamp.after.max.ms": TopicSetting(LONG, "3600000"),
    "message.timestamp.before.max.ms": TopicSetting(LONG, _LONG_MAX),
    "message.timestamp.type": TopicSetting(STRING, "CreateTime"),
    "min.cleanable.dirty.ratio": TopicSetting(DOUBLE, "0.5"),
    "min.compaction.lag.ms": TopicSetting(LONG, "0"),
    "min.insync.replicas": TopicSetting(INT, "1"),
    "preallocate": TopicSetting(BOOLEAN, "false"),
    "remote.log.copy.disable": TopicSetting(BOOLEAN, "false"),
    "remote.log.delete.on.disable": TopicSetting(BOOLEAN, "false"),
    "remote.storage.enable": TopicSetting(BOOLEAN, "false"),
    "retention.bytes": TopicSetting(LONG, "-1"),
    "retention.ms": TopicSetting(LONG, "604800000"),
    "segment.bytes": TopicSetting(INT, "1073741824"),
    "segment.index.bytes": TopicSetting(INT, "10485760"),
    "segment.jitter.ms": TopicSetting(LONG, "0"),
    "segment.ms": TopicSetting(LONG, "604800000"),
    "unclean.leader.election.enable": TopicSetting(BOOLEAN, "false"),
}


def settings_without_effect(effective: Iterable[str]) -> list[str]:
    """The settings that are accepted and change nothing.

    Args:
        effective: Kafka's dotted names of those that do something.

    Returns:
        The others, sorted.
    """
    return sorted(TOPIC_SETTINGS.keys() - set(effective))
