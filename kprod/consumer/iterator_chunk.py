"""The records of one block that an iteration is returning.

Thread-safety: the iterating thread; any thread sets `is_interrupted`.
"""

from collections.abc import Hashable
from typing import Any

from kprod.consumer.open_block import OpenBlock


class Chunk:
    """Records of one block that an iteration returns one by one.

    Attributes:
        block: The block.
        records: All records of the chunk, after the interceptors.
        taken: The same records before the interceptors; all are of `block`.
        in_hand: The last record that was returned; None before the first.
        ident: Identity of the iterating thread.
        is_interrupted: Whether the remaining records must go back to the block.
    """

    __slots__ = ("block", "ident", "in_hand", "is_interrupted", "records", "taken")

    def __init__(
        self, block: OpenBlock, taken: list[Any], records: list[Any], ident: Hashable
    ) -> None:
        """Create a chunk of which no record was returned."""
        self.block: OpenBlock = block
        self.taken: list[Any] = taken
        self.records: list[Any] = records
        self.ident: Hashable = ident
        self.in_hand: Any = None
        self.is_interrupted: bool = False

    @property
    def rest(self) -> list[Any]:
        """The taken records after the one in hand; all if there is none.

        Interceptors have not changed them, and will be called with them again.
        """
        if self.in_hand is None:
            return list(self.taken)
        offset = self.in_hand.offset
        return [record for record in self.taken if record.offset > offset]

    @property
    def left_count(self) -> int:
        """Number of `records` that were not returned yet."""
        if self.in_hand is None:
            return len(self.records)
        for index, record in enumerate(self.records):
            if record is self.in_hand:
                return len(self.records) - index - 1
        return 0
