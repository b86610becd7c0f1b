"""Kafka's internal topics: which of them are served here, and with which settings.

Thread-safety: immutable.
Source: Kafka Topic and GroupCoordinatorService (4.3).
"""

from collections.abc import Mapping

OFFSETS_TOPIC = "__consumer_offsets"

OFFSETS_SETTINGS: Mapping[str, str | None] = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 << 20),
}

UNUSED_TOPICS = frozenset({"__cluster_metadata", "__transaction_state", "__share_group_state"})
"""They may be in an adopted directory of Kafka's, and are left alone."""
