"""Records of one block that the iterator has in hand.

Thread-safety: the thread that iterates; `is_interrupted` is set by any.
"""

from collections.abc import Hashable
from typing import Any

from kprod.consumer.open_block import OpenBlock


class Chunk:
    """Records of one block that the iterator hands out one by one.

    Attributes:
        block: Of them.
        records: All of the chunk.
        in_hand: The last one that was handed out; None before the first.
        ident: Of the thread that iterates.
        is_interrupted: Whether the rest is to be given back.
    """

    __slots__ = ("block", "ident", "in_hand", "is_interrupted", "records")

    def __init__(self, block: OpenBlock, records: list[Any], ident: Hashable) -> None:
        """Take a chunk into the hand."""
        self.block: OpenBlock = block
        self.records: list[Any] = records
        self.ident: Hashable = ident
        self.in_hand: Any = None
        self.is_interrupted: bool = False

    @property
    def rest(self) -> list[Any]:
        """The records behind the one in hand; all if there is none."""
        if self.in_hand is None:
            return list(self.records)
        for index, record in enumerate(self.records):
            if record is self.in_hand:
                return self.records[index + 1 :]
        return []
