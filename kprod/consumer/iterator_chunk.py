# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The records of one block that an iteration is returning.

Thread-safety: the iterating thread; any thread sets `is_interrupted`.
"""

from collections.abc import Hashable
from typing import Any

from kprod.consumer.open_block import OpenBlock


class IteratorChunk:
    """Records of one block that an iteration returns one by one.

    Attributes:
        block: The block.
        records: All records of the chunk, after the interceptors.
        taken: The same records before the interceptors; the same list if there are none.
        in_hand: The last record that was returned; None before the first.
        ident: Identity of the iterating thread.
        is_interrupted: Whether the remaining records must go back to the block.
    """

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
    def next_offset(self) -> int:
        """Offset of the next record to return."""
        offset: int = self.taken[0].offset if self.in_hand is None else self.in_hand.offset + 1
        return offset

    @property
    def is_intercepted(self) -> bool:
        """Whether interceptors may have changed records of the chunk."""
        return self.records is not self.taken

    @property
    def rest(self) -> list[Any]:
        """The records of the block after the one in hand; all if there is none."""
        in_hand = self.in_hand
        if in_hand is None:
            return self.taken
        if in_hand is self.records[-1]:
            return []  # also those that an interceptor has left out
        offset = in_hand.offset
        return [record for record in self.taken if record.offset > offset]
