"""Compares sent and received records by partition, offset, key and value.

Thread-safety: one thread.
"""

from collections.abc import Sequence

from kprod.model import RecordMetadata
from kprod.record.blocks import ConsumerRecord


class Comparison:
    """Acknowledged records, each marked when it is read back."""

    __slots__ = ("_places", "_sent", "different_count", "surplus_count", "verified")

    def __init__(self, sent: Sequence[tuple[bytes, bytes]]) -> None:
        """Start with no acknowledged records.

        Args:
            sent: Key and value of each record, in the order of sending.
        """
        self._sent = sent
        self._places: dict[int, dict[int, int]] = {}  # partition → offset → index in `_sent`
        self.verified: dict[int, int] = {}
        self.different_count: int = 0
        self.surplus_count: int = 0

    def acknowledge(self, index: int, metadata: RecordMetadata) -> None:
        """Record a record's acknowledged position.

        Args:
            index: The record's index in `sent`.
            metadata: The result of its future.
        """
        offsets = self._places.setdefault(metadata.partition, {})
        if metadata.offset in offsets:
            self.different_count += 1  # two records cannot have the same position
        offsets[metadata.offset] = index

    def compare(self, record: ConsumerRecord) -> None:
        """Compare a record that was read back.

        Args:
            record: The record; one that was not sent counts as surplus.
        """
        partition = record.partition
        index = self._places.get(partition, {}).pop(record.offset, None)
        if index is None:
            self.surplus_count += 1
        elif (record.key, record.value) != self._sent[index]:
            self.different_count += 1
        else:
            self.verified[partition] = self.verified.get(partition, 0) + 1

    @property
    def verified_count(self) -> int:
        """Number of records that were read back unchanged."""
        return sum(self.verified.values())

    @property
    def missing_count(self) -> int:
        """Number of records that were acknowledged and not read back."""
        return sum(len(offsets) for offsets in self._places.values())

    @property
    def is_whole(self) -> bool:
        """Whether every record was read back unchanged, and no other record."""
        return (
            self.verified_count == len(self._sent)
            and self.surplus_count == self.different_count == self.missing_count == 0
        )
