"""The committed offsets of the groups of one shard.

Offsets of open transactions wait by producer id until their marker: a commit moves them in, an
abort drops them. A tombstone removes from both.

Invariants.
    A record never replaces one with a higher offset in the log: a marker that comes late commits
    an offset that may be older than one committed since.
    A commit becomes visible when it is replicated, unless a tombstone was written after it.

Thread-safety: the broker's thread.
Source: Kafka OffsetMetadataManager (4.3.1); KIP-447 for pending offsets.
"""

from collections.abc import Iterable, Mapping

from kprod.broker.group.records import Offset, OffsetKey

TopicPlace = tuple[str, int]
"""Topic and partition."""

NO_PRODUCER_ID = -1


class OffsetTable:
    """Offsets by group, topic and partition."""

    __slots__ = ("_by_group", "_commit_count", "_in_flight", "_pending")

    def __init__(self) -> None:
        """Make an empty table."""
        self._by_group: dict[str, dict[TopicPlace, Offset]] = {}
        self._pending: dict[int, dict[OffsetKey, Offset]] = {}
        self._in_flight: dict[OffsetKey, set[int]] = {}
        self._commit_count = 0

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
        """Every offset of a topic, those in flight included."""
        committed = (
            OffsetKey(group_id, *place)
            for group_id, offsets in self._by_group.items()
            for place in offsets
            if place[0] == topic
        )
        in_flight = (key for key in self._in_flight if key.topic == topic)
        return list(dict.fromkeys([*committed, *in_flight]))

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        """Every offset of a group, those in flight included."""
        committed = (OffsetKey(group_id, *place) for place in self.of_group(group_id))
        in_flight = (key for key in self._in_flight if key.group_id == group_id)
        return list(dict.fromkeys([*committed, *in_flight]))

    def is_known(self, key: OffsetKey) -> bool:
        """Whether a partition has an offset, committed or in flight."""
        known = self.get(key.group_id, key.topic, key.partition) is not None
        return known or key in self._in_flight

    def begin_commit(self, keys: Iterable[OffsetKey]) -> int:
        """Note offsets whose records are about to be written.

        Args:
            keys: Their keys.

        Returns:
            A number of the commit, for `end_commit`.
        """
        self._commit_count += 1
        for key in keys:
            self._in_flight.setdefault(key, set()).add(self._commit_count)
        return self._commit_count

    def end_commit(self, number: int, key: OffsetKey) -> bool:
        """End a commit of one offset.

        Args:
            number: Number of the commit.
            key: One of its keys.

        Returns:
            False if a tombstone was written meanwhile, so that the offset does not count.
        """
        numbers = self._in_flight.get(key, set())
        if number not in numbers:
            return False
        numbers.remove(number)
        if not numbers:
            del self._in_flight[key]
        return True

    def withdraw(self, key: OffsetKey) -> None:
        """Disregard a partition's commits in flight: a tombstone follows them in the log."""
        self._in_flight.pop(key, None)

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
