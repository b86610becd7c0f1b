"""The ids that producers get: each of them once, not even twice after a crash.

Ids are written down a block at a time, before the first of them is given.

Thread-safety: the broker's thread.
Source: Kafka ProducerIdControlManager (4.3).
"""

from collections.abc import Callable

from kprod.broker.rejection import Refused
from kprod.protocol.error_table import ErrorCode

_FIRST_ID = 1_000
_BLOCK = 1_000  # as Kafka's controller hands them out


class ProducerIds:
    """A counter.

    Attributes:
        end: No id at or above it was given.
    """

    __slots__ = ("_next_id", "_write_down", "end")

    def __init__(self, write_down: Callable[[], None]) -> None:
        """Make a counter at the first id.

        Args:
            write_down: Keeps `end`; may raise OSError.
        """
        self._write_down = write_down
        self.end: int = _FIRST_ID
        self._next_id = self.end

    def continue_at(self, next_id: int) -> None:
        """Continue as an earlier broker left off."""
        self._next_id = self.end = next_id

    def give_back(self) -> None:
        """Let the rest of the block be given after the next start."""
        self.end = self._next_id

    def new_id(self) -> int:
        """Give an id that was never given before.

        Returns:
            The id.

        Raises:
            Refused: The next ids cannot be written down.
        """
        if self._next_id == self.end:
            self.end += _BLOCK
            try:
                self._write_down()
            except OSError as error:
                self.end -= _BLOCK
                text = f"no more producer ids can be had: {error}"
                raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
        self._next_id += 1
        return self._next_id - 1
