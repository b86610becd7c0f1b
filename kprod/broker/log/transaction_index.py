"""The aborted transactions of a segment, which read_committed consumers skip.

A transaction is in the index of the segment that contains its marker, wherever its records are.

Invariants.
    Markers' offsets rise strictly.

Thread-safety: the broker's thread.
Source: Kafka TransactionIndex and AbortedTxn (4.3).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kprod.broker.log.open_transactions import EndedTransaction
from kprod.errors import CorruptRecord

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    Attributes:
        producer_id: Id of its producer.
        first_offset: Offset of its first record.
        last_offset: Offset of its marker.
        last_stable_offset: No transaction below this offset was open when the marker was written. A
            later marker ends a transaction that began at or beyond it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions in the order of their markers."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Make an empty index."""
        self._entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        """Number of transactions."""
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        """Iterate over the transactions, in order."""
        return iter(self._entries)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction, whose marker must be above all others."""
        self._entries.append(transaction)

    def note_ended(self, ended: EndedTransaction) -> None:
        """Add a transaction if it was aborted and is not in the index already."""
        newest = self._entries[-1].last_offset if self._entries else -1
        if ended.is_aborted and ended.last_offset > newest:
            entry = AbortedTransaction(
                ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
            )
            self._entries.append(entry)

    def truncate(self, offset: int) -> None:
        """Remove the transactions whose markers are at or beyond an offset."""
        while self._entries and self._entries[-1].last_offset >= offset:
            self._entries.pop()

    def encoded(self) -> bytes:
        """Return the content of a `.txnindex` file: 34 bytes for each transaction."""
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self._entries)

    @classmethod
    def decoded(cls, content: bytes) -> "TransactionIndex":
        """Decode the content of a snapshot file.

        Args:
            content: The whole new content.

        Returns:
            The index.

        Raises:
            CorruptRecord: The content has another version, is cut off, or is out of order.
        """
        index = cls()
        if len(content) % _ENTRY.size:
            raise CorruptRecord(f"a transaction index of {len(content)} bytes is cut off")
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            rises = not index._entries or entry.last_offset > index._entries[-1].last_offset
            if version != _VERSION or not rises or entry.first_offset > entry.last_offset:
                raise CorruptRecord(f"a transaction index has {entry} of version {version}")
            index.append(entry)
        return index
