"""The leader epochs of one partition, each with its start offset.

A client or a follower asks where an epoch ended; the response tells it which of its own records a
newer leader has replaced (KIP-101, KIP-320).

Invariants.
    Epochs and their start offsets rise strictly: an epoch without records is replaced by the next
    one.

Complexity: O(log n) for a lookup, O(1) for a known epoch.

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
_EPOCH_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1
_EPOCH = attrgetter("epoch")


class EpochStart(NamedTuple):
    """An epoch and its start offset.

    Attributes:
        epoch: The epoch, 0 or more.
        start_offset: Offset of the epoch's first record, which need not exist yet.
    """

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """An epoch and its end offset.

    Attributes:
        epoch: The largest known epoch that is not above the requested one; −1 if none is known.
        end_offset: Offset at which the next epoch begins, or the log's end; −1 if no epoch is
            known.
    """

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(-1, -1)


class LeaderEpochs:
    """A partition's epochs in order; stored as Kafka's `leader-epoch-checkpoint`.

    Attributes:
        latest_epoch: The newest epoch, −1 if none is known.
    """

    __slots__ = ("_starts", "latest_epoch")

    def __init__(self, starts: Sequence[EpochStart] = ()) -> None:
        """Create a table.

        Args:
            starts: Epochs with their start offsets, both rising.
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
        """Start offset of the newest epoch, 0 if none is known."""
        return self._starts[-1].start_offset if self._starts else 0

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an epoch, unless it is the newest one already.

        Args:
            epoch: The epoch of the leader that appends, or of a batch that is read back.
            start_offset: Offset of the epoch's first record.

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
        """Return the epoch of an offset, −1 if the offset is below all epochs."""
        found = bisect.bisect_right(self._starts, offset, key=attrgetter("start_offset")) - 1
        return self._starts[found].epoch if found >= 0 else -1

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Find where an epoch ends.

        Args:
            epoch: Any number; −1 is never known.
            log_end_offset: The end of the newest epoch.

        Returns:
            The end of the largest known epoch up to the given one. An epoch below all known ones
            ends at the first known start offset; an epoch above all known ones is unknown.
        """
        if epoch < 0 or epoch > self.latest_epoch:
            return UNKNOWN_END
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        index = bisect.bisect_right(self._starts, epoch, key=_EPOCH)
        known = self._starts[index - 1].epoch if index else epoch
        return EpochEnd(known, self._starts[index].start_offset)

    def truncate_to(self, offset: int) -> bool:
        """Remove the epochs that begin at or beyond an offset (KAFKA-10706).

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
        """Remove the epochs before the log's new start, and shorten the one that contains it.

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
        """Return the file's content: version, number of epochs, then a line for each epoch."""
        lines = [_VERSION, str(len(self._starts)), *(f"{it.epoch} {it[1]}" for it in self._starts)]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def decoded(cls, content: bytes) -> "LeaderEpochs":
        """Parse the file's content.

        Args:
            content: The whole content; empty means an empty table.

        Returns:
            The table.

        Raises:
            CorruptRecord: The content is not such a table.
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
        fits = all(
            0 <= it.epoch <= _EPOCH_MAX and 0 <= it.start_offset <= _OFFSET_MAX for it in starts
        )
        if not is_whole or not rises or not fits:
            raise CorruptRecord(f"{EPOCH_FILE} of {len(content)} bytes is not a table of epochs")
        return cls(starts)
