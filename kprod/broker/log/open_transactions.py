"""The open transactions of one partition, and the ended ones whose markers are not replicated yet.

A read_committed consumer sees nothing at or beyond the first offset of either kind: an open
transaction may still be aborted, and a marker above the high watermark may still be lost.

Invariants.
    Open transactions are ordered by their first offsets, since offsets only rise.

Complexity: O(1), except for a marker that ends an old transaction among many.

Thread-safety: the broker's thread.
Source: ongoingTxns and unreplicatedTxns of Kafka ProducerStateManager (4.3).
"""

from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction and its marker.

    Attributes:
        producer_id: Id of its producer.
        first_offset: Offset of its first record.
        last_offset: Offset of its marker.
        is_aborted: Whether the marker aborts it.
        last_stable_offset: First offset of the oldest transaction that was open when the marker was
            written; without one, the offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


# Shared by all partitions without transactions, since a cluster may have 100,000 of them. Never
# modified.
_NONE_OPEN: dict[int, int] = {}
_NONE_ENDED: list[EndedTransaction] = []


class OpenTransactions:
    """The first offsets of transactions that limit read_committed consumers."""

    __slots__ = ("_first_offsets", "_unreplicated")

    def __init__(self) -> None:
        """Start with no transactions."""
        self._first_offsets = _NONE_OPEN
        self._unreplicated = _NONE_ENDED

    def __contains__(self, producer_id: int) -> bool:
        """Whether a producer has an open transaction."""
        return producer_id in self._first_offsets

    def __len__(self) -> int:
        """Number of open transactions."""
        return len(self._first_offsets)

    @property
    def first_unstable_offset(self) -> int | None:
        """The lowest first offset; None without transactions."""
        if not self._unreplicated:
            return next(iter(self._first_offsets.values()), None)
        ended = min(it.first_offset for it in self._unreplicated)
        return min(ended, next(iter(self._first_offsets.values()), ended))

    def first_offset_of(self, producer_id: int) -> int:
        """Return the first offset of a producer's open transaction, −1 if it has none."""
        return self._first_offsets.get(producer_id, -1)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transactional batch; the first batch of a transaction opens it."""
        if not self._first_offsets:
            self._first_offsets = {}
        self._first_offsets.setdefault(producer_id, first_offset)

    def end(
        self, producer_id: int, marker_offset: int, *, is_aborted: bool
    ) -> EndedTransaction | None:
        """Add a marker, which ends its producer's transaction.

        Args:
            producer_id: The id of the marker's producer.
            marker_offset: Offset of the marker, above all records of the transaction.
            is_aborted: Whether the marker aborts it.

        Returns:
            The transaction; None if the producer wrote nothing to this partition.
        """
        first_offset = self._first_offsets.pop(producer_id, None)
        if first_offset is None:
            return None
        stable_offset = next(iter(self._first_offsets.values()), marker_offset + 1)
        ended = EndedTransaction(
            producer_id, first_offset, marker_offset, is_aborted, stable_offset
        )
        if not self._unreplicated:
            self._unreplicated = []
        self._unreplicated.append(ended)
        return ended

    def note_high_watermark(self, high_watermark: int) -> None:
        """Remove the ended transactions whose markers are below the new high watermark."""
        if self._unreplicated:
            left = [it for it in self._unreplicated if it.last_offset >= high_watermark]
            self._unreplicated = left or _NONE_ENDED

    def clear(self) -> None:
        """Remove all transactions."""
        self._first_offsets = _NONE_OPEN
        self._unreplicated = _NONE_ENDED
