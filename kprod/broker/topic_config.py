"""The effective settings of a topic: its own, then the cluster's.

Thread-safety: immutable.
Source: Kafka LogConfig (4.3).
"""

import dataclasses
from collections.abc import Mapping

from kprod.broker.config import EmbeddedConfig
from kprod.broker.topic_settings import (
    INTERNAL_SEGMENT_BYTES,
    Value,
    parse_setting,
    value_text,
)
from kprod.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings that have an effect; Kafka's dotted names map to these.

    Attributes:
        cleanup_policy: `cleanup.policy`: `delete`, `compact`, both with a comma between, or empty.
        delete_retention_ms: `delete.retention.ms`.
        file_delete_delay_ms: `file.delete.delay.ms`.
        flush_messages: `flush.messages`.
        flush_ms: `flush.ms`.
        index_interval_bytes: `index.interval.bytes`.
        internal_segment_bytes: `internal.segment.bytes`; 0 for none.
        max_compaction_lag_ms: `max.compaction.lag.ms`.
        max_message_bytes: `max.message.bytes`.
        message_timestamp_after_max_ms: `message.timestamp.after.max.ms`.
        message_timestamp_before_max_ms: `message.timestamp.before.max.ms`.
        message_timestamp_type: `message.timestamp.type`.
        min_cleanable_dirty_ratio: `min.cleanable.dirty.ratio`.
        min_compaction_lag_ms: `min.compaction.lag.ms`.
        min_insync_replicas: `min.insync.replicas`.
        retention_bytes: `retention.bytes`.
        retention_ms: `retention.ms`.
        segment_bytes: `segment.bytes`.
        segment_index_bytes: `segment.index.bytes`.
        segment_jitter_ms: `segment.jitter.ms`.
        segment_ms: `segment.ms`.
    """

    cleanup_policy: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    internal_segment_bytes: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int

    @property
    def compacts(self) -> bool:
        """Whether the cleanup policy includes compaction."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether the cleanup policy includes deletion by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def segment_bytes_max(self) -> int:
        """Maximum size of a segment."""
        return self.internal_segment_bytes or self.segment_bytes

    @classmethod
    def of_cluster(cls, config: EmbeddedConfig) -> "TopicConfig":
        """The cluster's defaults for a topic."""
        return cls(
            cleanup_policy=config.cleanup_policy,
            delete_retention_ms=config.delete_retention_ms,
            file_delete_delay_ms=config.file_delete_delay_ms,
            flush_messages=config.flush_messages,
            flush_ms=config.flush_ms,
            index_interval_bytes=config.index_interval_bytes,
            max_message_bytes=config.message_max_bytes,
            message_timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            message_timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            message_timestamp_type=config.message_timestamp_type,
            min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            min_insync_replicas=config.min_insync_replicas,
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            segment_jitter_ms=config.segment_jitter_ms,
            segment_ms=config.segment_ms,
        )

    def with_overrides(self, overrides: Mapping[str, str | None]) -> "TopicConfig":
        """Apply a topic's own settings.

        Args:
            overrides: Texts by Kafka's dotted names; None keeps the default.

        Returns:
            A new object.

        Raises:
            ConfigError: A value is invalid, two values contradict each other, or Kafka has no such
                setting. Kafka's settings without a meaning here are validated and accepted, so that
                scripts written for Kafka run.
        """
        known = {_dotted(field.name): field.name for field in dataclasses.fields(self)}
        values = {
            name: parse_setting(name, text) for name, text in overrides.items() if text is not None
        }
        _check_lags(values)
        changes = {known[name]: value for name, value in values.items() if name in known}
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # parsed by kind

    def described(self) -> dict[str, str]:
        """Return the values as text, by Kafka's dotted names, for DescribeConfigs."""
        texts = {
            _dotted(field.name): value_text(getattr(self, field.name))
            for field in dataclasses.fields(self)
        }
        del texts[INTERNAL_SEGMENT_BYTES]
        return texts


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _check_lags(values: Mapping[str, Value]) -> None:
    lowest = values.get("min.compaction.lag.ms", 0)
    highest = values.get("max.compaction.lag.ms", lowest)
    if lowest > highest:  # type: ignore[operator]  # both are numbers
        raise ConfigError(
            f"min.compaction.lag.ms={lowest} is above max.compaction.lag.ms={highest}"
        )
