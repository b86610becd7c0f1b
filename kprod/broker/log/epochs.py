"""The leader epochs of one partition: at which offset each of them begins.

A client or a follower that has lost track of its leader asks where an epoch ended, and learns from
the response which of its own records another leader has replaced (KIP-101, KIP-320).

Invariants.
    Epochs rise strictly, and so do their start offsets: an epoch that brought no record gives way
    to the next one.

Complexity: O(log n) for a look-up, O(1) for an epoch that is known already.

Thread-safety: the broker's thread.
Source: Kafka LeaderEpochFileCache (4.3).
"""

import bisect
import itertools
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from kprod.errors import CorruptRecord

EPOCH_FILE = "leader-epoch-checkpoint"
_VERSION = "0"
_EPOCH = attrgetter("epoch")


class EpochStart(NamedTuple):
    """One epoch.

    Attributes:
        epoch: 0 or more.
        start_offset: Offset of its first record, or of the record that would be its first.
    """

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ends.

    Attributes:
        epoch: The largest known one that is not above the epoch asked for; −1 if none is known.
        end_offset: Offset at which the next one begins, or the log's end; −1 likewise.
    """

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(-1, -1)


class LeaderEpochs:
    """Epochs in their order; as a table of a store, Kafka's `leader-epoch-checkpoint`.

    Attributes:
        latest_epoch: The newest epoch, −1 when none is known.
    """

    __slots__ = ("_starts", "latest_epoch")

    def __init__(self, starts: Sequence[EpochStart] = ()) -> None:
        """Make a table.

        Args:
            starts: Oldest first, epochs and offsets rising.
        """
        self._starts = list(starts)
        self.latest_epoch: int = -1
        self._note_latest()

    def __len__(self) -> int:
        """Number of epochs."""
        return len(self._starts)

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        """All epochs, oldest first."""
        return tuple(self._starts)

    @property
    def start_of_latest(self) -> int:
        """Offset at which the newest epoch begins, 0 when none is known."""
        return self._starts[-1].start_offset if self._starts else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch begins at an offset, unless it is the newest one already.

        Args:
            epoch: Of the leader that appends, or of a batch that is read back.
            start_offset: Where its first record is or will be.

        Returns:
            Whether the table changed.
        """
        starts = self._starts
        if starts and starts[-1].epoch == epoch and start_offset >= starts[-1].start_offset:
            return False
        while starts and (starts[-1].epoch >= epoch or starts[-1].start_offset >= start_offset):
            starts.pop()
        starts.append(EpochStart(epoch, start_offset))
        self.latest_epoch = epoch
        return True

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that an offset belongs to, −1 when it lies before all epochs."""
        found = bisect.bisect_right(self._starts, offset, key=attrgetter("start_offset")) - 1
        return self._starts[found].epoch if found >= 0 else -1

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Find where an epoch ends.

        Args:
            epoch: Any; −1 is never known.
            log_end_offset: Where the newest epoch ends.

        Returns:
            The end of the largest known epoch up to this one. An epoch below all known ones ends
            where the first of these begins; one above all of them is unknown.
        """
        if epoch < 0 or epoch > self.latest_epoch:
            return UNKNOWN_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        index = bisect.bisect_right(self._starts, epoch, key=_EPOCH)
        known = self._starts[index - 1].epoch if index else epoch
        return EpochEnd(known, self._starts[index].start_offset)

    def truncate_to(self, offset: int) -> bool:
        """Drop the epochs that begin at or beyond an offset (KAFKA-10706).

        Args:
            offset: The log's new end.

        Returns:
            Whether the table changed.
        """
        before = len(self._starts)
        while self._starts and self._starts[-1].start_offset >= offset:
            self._starts.pop()
        self._note_latest()
        return len(self._starts) != before

    def raise_start(self, offset: int) -> bool:
        """Drop the epochs that ended before the log's new start; the one it lies in begins there.

        Args:
            offset: The log's new start.

        Returns:
            Whether the table changed.
        """
        starts = self._starts
        lower = bisect.bisect_right(starts, offset, key=attrgetter("start_offset")) - 1
        if lower < 0 or (lower == 0 and starts[0].start_offset == offset):
            return False
        starts[: lower + 1] = [EpochStart(starts[lower].epoch, offset)]
        return True

    def _note_latest(self) -> None:
        self.latest_epoch = self._starts[-1].epoch if self._starts else -1

    def encoded(self) -> bytes:
        """The content of the file: version, number of epochs, an epoch and its offset a line."""
        lines = [_VERSION, str(len(self._starts)), *(f"{it.epoch} {it[1]}" for it in self._starts)]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def decoded(cls, content: bytes) -> "LeaderEpochs":
        """Read the content of the file.

        Args:
            content: All of it; nothing stands for an empty table.

        Returns:
            The table.

        Raises:
            CorruptRecord: The content is no table of this kind.
        """
        lines = content.decode("ascii", errors="replace").splitlines()
        if not lines:
            return cls()
        try:
            starts = [EpochStart(*map(int, line.split())) for line in lines[2:]]
            is_whole = lines[0] == _VERSION and int(lines[1]) == len(starts)
        except (ValueError, TypeError, IndexError):
            is_whole, starts = False, []
        pairs = itertools.pairwise(starts)
        rises = all(one.epoch < two.epoch and one[1] < two[1] for one, two in pairs)
        if not is_whole or not rises or any(min(it) < 0 for it in starts):
            raise CorruptRecord(f"{EPOCH_FILE} of {len(content)} bytes is no table of epochs")
        return cls(starts)
