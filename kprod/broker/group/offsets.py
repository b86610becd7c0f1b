"""The committed offsets of the groups of one shard.

Offsets of open transactions wait by producer id until their marker: a commit moves them in, an
abort drops them. A tombstone removes from both.

Invariants.
    A record never replaces one with a higher offset in the log: a marker that comes late commits
    an offset that may be older than one committed since.

Thread-safety: the broker's thread.
Source: Kafka OffsetMetadataManager (4.3.1); KIP-447 for pending offsets.
"""

from collections.abc import Mapping

from kprod.broker.group.records import Offset, OffsetKey

TopicPlace = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER_ID = -1


class OffsetTable:
    """Offsets by group, topic and partition."""

    __slots__ = ("_by_group", "_pending")

    def __init__(self) -> None:
        """Make an empty table."""
        self._by_group: dict[str, dict[TopicPlace, Offset]] = {}
        self._pending: dict[int, dict[OffsetKey, Offset]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> Offset | None:
        """The offset of one partition."""
        return self._by_group.get(group_id, {}).get((topic, partition))

    def of_group(self, group_id: str) -> Mapping[TopicPlace, Offset]:
        """All offsets of a group, in order of their first commit."""
        return self._by_group.get(group_id, {})

    def group_ids(self) -> list[str]:
        """Groups that have offsets, those of open transactions included."""
        pending = (key.group_id for offsets in self._pending.values() for key in offsets)
        return list(dict.fromkeys([*self._by_group, *pending]))

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """Every committed offset of a topic."""
        return [
            OffsetKey(group_id, *place)
            for group_id, offsets in self._by_group.items()
            for place in offsets
            if place[0] == topic
        ]

    def put(self, key: OffsetKey, offset: Offset, producer_id: int = NO_PRODUCER_ID) -> None:
        """Store a committed offset.

        Args:
            key: Group, topic and partition of the offset.
            offset: Its `log_offset` decides which of two is newer.
            producer_id: Producer id of an open transaction, whose marker the offset waits for.
        """
        if producer_id != NO_PRODUCER_ID:
            self._pending.setdefault(producer_id, {})[key] = offset
            return
        offsets = self._by_group.setdefault(key.group_id, {})
        place = (key.topic, key.partition)
        known = offsets.get(place)
        if known is None or known.log_offset <= offset.log_offset:
            offsets[place] = offset

    def remove(self, key: OffsetKey) -> None:
        """Remove a partition's committed offset, and its pending ones in open transactions."""
        offsets = self._by_group.get(key.group_id)
        if offsets is not None:
            offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self._by_group[key.group_id]
        for producer_id, pending in list(self._pending.items()):
            pending.pop(key, None)
            if not pending:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Carry out a transaction's marker."""
        pending = self._pending.pop(producer_id, {})
        if is_commit:
            for key, offset in pending.items():
                self.put(key, offset)

    def has_pending(self, group_id: str, place: TopicPlace | None = None) -> bool:
        """Whether an open transaction has offsets of a group, or of one of its partitions."""
        if not self._pending:
            return False
        return any(
            key.group_id == group_id and place in {None, (key.topic, key.partition)}
            for pending in self._pending.values()
            for key in pending
        )
