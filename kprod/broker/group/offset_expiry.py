"""Expires unused offsets, and removes groups that have neither members nor offsets.

Thread-safety: the broker's thread.
Source: Kafka OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup.offsetExpirationCondition
(4.3.1); KIP-211.
"""

from collections.abc import Callable
from typing import Final

from kprod.broker.group.classic_group import Group
from kprod.broker.group.committing import delete_group, delete_offsets
from kprod.broker.group.records import NO_TIMESTAMP, Offset, OffsetKey
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import GroupState

_MINUTE_MS: Final = 60_000


def expire_offsets(shard: CoordinatorShard) -> None:
    """Delete expired offsets in every group of a shard.

    Args:
        shard: A loaded shard.
    """
    for group in list(shard.groups.values()):
        expired = expired_keys(shard, group)
        offsets = shard.offsets.keys_of_group(group.group_id)
        is_over = group.state is GroupState.EMPTY and len(expired) == len(offsets)
        if is_over and not shard.offsets.has_pending(group.group_id):
            delete_group(shard, group.group_id, lambda _: None)
        elif expired:
            delete_offsets(shard, expired, lambda _: None)


def expired_keys(shard: CoordinatorShard, group: Group) -> list[OffsetKey]:
    """Return the expired offsets of a group.

    Args:
        shard: The shard that holds the group.
        group: The group.

    Returns:
        Their keys.
    """
    since = _since(group)
    if since is None:
        return []
    now_ms = shard.timestamp_ms
    retention_ms = shard.config.offsets_retention_minutes * _MINUTE_MS
    return [
        OffsetKey(group.group_id, *place)
        for place, offset in shard.offsets.of_group(group.group_id).items()
        if not group.is_subscribed(place[0])
        and not shard.offsets.has_pending(group.group_id, place)
        and _has_expired(offset, since(offset), now_ms, retention_ms)
    ]


def _since(group: Group) -> Callable[[Offset], int] | None:
    """Return the start of a group's offset retention; None if its offsets do not expire now."""
    if group.protocol_type is None:
        return _commit_time
    if group.state is GroupState.EMPTY:
        if group.state_since_ms == NO_TIMESTAMP:
            return _commit_time
        return lambda _: group.state_since_ms
    is_known = group.is_consumers and group.subscribed_topics is not None
    return _commit_time if is_known and group.state is GroupState.STABLE else None


def _commit_time(offset: Offset) -> int:
    return offset.commit_timestamp_ms


def _has_expired(offset: Offset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if offset.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= offset.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
