"""Assigns producer ids, each only once, even across a crash.

Ids are reserved on disk in blocks, before the first of a block is assigned.

Thread-safety: the broker's thread.
Source: Kafka ProducerIdControlManager (4.3).
"""

from collections.abc import Callable

from kprod.broker.rejection import Rejected
from kprod.protocol.error_table import ErrorCode

_FIRST_ID = 1_000
_BLOCK = 1_000  # the block size of Kafka's controller


class ProducerIds:
    """A counter of producer ids.

    Attributes:
        end: No id at or above it was assigned.
    """

    __slots__ = ("_next_id", "_write_down", "end")

    def __init__(self, write_down: Callable[[], None]) -> None:
        """Start at the first id.

        Args:
            write_down: Stores `end`; may raise OSError.
        """
        self._write_down = write_down
        self.end: int = _FIRST_ID
        self._next_id = self.end

    def continue_at(self, next_id: int) -> None:
        """Continue after the ids of an earlier run."""
        self._next_id = self.end = next_id

    def give_back(self) -> None:
        """Return the rest of the block, so that the next start can assign it."""
        self.end = self._next_id

    def new_id(self) -> int:
        """Return an unused id.

        Returns:
            The id.

        Raises:
            Rejected: The next block cannot be stored.
        """
        if self._next_id == self.end:
            self.end += _BLOCK
            try:
                self._write_down()
            except OSError as error:
                self.end -= _BLOCK
                text = f"no more producer ids can be had: {error}"
                raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        self._next_id += 1
        return self._next_id - 1
