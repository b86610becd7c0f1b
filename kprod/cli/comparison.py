"""Compare the sent records with those read: each by partition and offset, key and value.

Thread-safety: one thread.
"""

from collections.abc import Sequence

from kprod.model import Record, RecordMetadata


class Comparison:
    """Records that were acknowledged, ticked off as they are read back."""

    __slots__ = ("_places", "_sent", "different_count", "surplus_count", "verified")

    def __init__(self, sent: Sequence[tuple[bytes, bytes]]) -> None:
        """Start with nothing acknowledged.

        Args:
            sent: Key and value of every record, in the order of sending.
        """
        self._sent = sent
        self._places: dict[int, dict[int, int]] = {}  # partition → offset → index in `_sent`
        self.verified: dict[int, int] = {}
        self.different_count: int = 0
        self.surplus_count: int = 0

    def acknowledge(self, index: int, metadata: RecordMetadata) -> None:
        """Note where a record is said to be.

        Args:
            index: Of the record, 0-based, in the order of sending.
            metadata: What its future gave.
        """
        offsets = self._places.setdefault(metadata.partition, {})
        if metadata.offset in offsets:
            self.different_count += 1  # two records cannot be in one place
        offsets[metadata.offset] = index

    def compare(self, partition: int, record: Record) -> None:
        """Tick off a record that was read back.

        Args:
            partition: Where it was read.
            record: One that nobody sent is counted as surplus.
        """
        index = self._places.get(partition, {}).pop(record.offset, None)
        if index is None:
            self.surplus_count += 1
        elif (record.key, record.value) != self._sent[index]:
            self.different_count += 1
        else:
            self.verified[partition] = self.verified.get(partition, 0) + 1

    @property
    def verified_count(self) -> int:
        """Records read back as they were sent."""
        return sum(self.verified.values())

    @property
    def missing_count(self) -> int:
        """Records acknowledged and not read back."""
        return sum(len(offsets) for offsets in self._places.values())

    @property
    def is_whole(self) -> bool:
        """Whether every record that was to be sent is there, and nothing else."""
        return (
            self.verified_count == len(self._sent)
            and self.surplus_count == self.different_count == self.missing_count == 0
        )
