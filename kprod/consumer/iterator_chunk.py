# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The records of one block that an iteration is returning.

Thread-safety: the iterating thread; any thread sets `is_interrupted`.
"""

from collections.abc import Hashable
from typing import Any

from kprod.consumer.open_block import OpenBlock
from kprod.consumer.position import NO_EPOCH, Place


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
    def place(self) -> Place:
        """The position after the record in hand."""
        number = self.block.fetched.number
        if self.in_hand is None:
            before = self.block.partition.place
            epoch = NO_EPOCH if before is None or before.number != number else before.epoch
            return Place(number, self.taken[0].offset, epoch)
        offset = self.in_hand.offset
        return Place(number, offset + 1, self._epoch_at(offset))

    @property
    def asked_past(self) -> Place:
        """The position of the record in hand: the application has asked for it, and for no more."""
        first = self.taken[0] if self.in_hand is None else self.in_hand
        return Place(self.block.fetched.number, first.offset)

    @property
    def is_intercepted(self) -> bool:
        """Whether interceptors may have changed records of the chunk."""
        return self.records is not self.taken

    def _epoch_at(self, offset: int) -> int:
        """Return the leader epoch of a taken record."""
        record = self.in_hand
        if self.is_intercepted:  # an interceptor's record may have no epoch
            record = next((each for each in self.taken if each.offset == offset), None)
        epoch: int | None = None if record is None else record.leader_epoch
        return NO_EPOCH if epoch is None else epoch

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
