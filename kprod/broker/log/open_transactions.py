"""Transactions of one partition that are open, and those whose end is not replicated yet.

Readers of committed records see nothing at or beyond the first offset of either kind: an open
transaction may still be aborted, and a marker above the high watermark may still be lost.

Invariants.
    Open transactions are in the order of their first offsets, since offsets only rise.

Complexity: O(1), but for a marker that ends an old transaction among many.

Thread-safety: the broker's thread.
Source: Kafka ProducerStateManager (4.3), its ongoingTxns and unreplicatedTxns.
"""

from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction and its marker.

    Attributes:
        producer_id: Whose it was.
        first_offset: Of its first record.
        last_offset: Of its marker.
        is_aborted: What the marker says.
        last_stable_offset: First offset of the oldest transaction that was open when the marker
            was written, or the offset behind the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


# Of every partition without any: a cluster may have 100,000. Nothing is ever put into these.
_NONE_OPEN: dict[int, int] = {}
_NONE_ENDED: list[EndedTransaction] = []


class OpenTransactions:
    """First offsets of transactions that readers of committed records must wait for."""

    __slots__ = ("_first_offsets", "_unreplicated")

    def __init__(self) -> None:
        """Make it without transactions."""
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
        """The lowest first offset of all; None when there is no transaction."""
        if not self._unreplicated:
            return next(iter(self._first_offsets.values()), None)
        ended = min(it.first_offset for it in self._unreplicated)
        return min(ended, next(iter(self._first_offsets.values()), ended))

    def first_offset_of(self, producer_id: int) -> int:
        """Offset at which a producer's open transaction begins, −1 when it has none."""
        return self._first_offsets.get(producer_id, -1)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Note a transactional batch; the first of a transaction begins it."""
        if not self._first_offsets:
            self._first_offsets = {}
        self._first_offsets.setdefault(producer_id, first_offset)

    def end(
        self, producer_id: int, marker_offset: int, *, is_aborted: bool
    ) -> EndedTransaction | None:
        """Note a marker.

        Args:
            producer_id: Whose transaction it ends.
            marker_offset: Above the offsets of all its records.
            is_aborted: What the marker says.

        Returns:
            The transaction; None when the producer wrote nothing to this partition.
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
        """Forget the transactions whose markers every replica in the in-sync set has."""
        if self._unreplicated:
            left = [it for it in self._unreplicated if it.last_offset >= high_watermark]
            self._unreplicated = left or _NONE_ENDED

    def clear(self) -> None:
        """Forget all."""
        self._first_offsets = _NONE_OPEN
        self._unreplicated = _NONE_ENDED
