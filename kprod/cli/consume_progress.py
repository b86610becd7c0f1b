"""Shows the progress of `kprod consume` on standard error.

It is shown where standard error is a terminal and standard output is none: records that are printed
on the same terminal show by themselves how far it is.

Thread-safety: the main thread.
"""

import sys
from collections.abc import Mapping
from typing import Self

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from kprod.cli.progress_bar import ProgressBar
from kprod.model import TopicPartition

Positions = Mapping[TopicPartition, int]


class ConsumeProgress:
    """A bar to the end that was asked for, or a count where there is none."""

    __slots__ = ("_bar", "_starts", "_task", "is_shown")

    def __init__(self) -> None:
        self._starts: Positions = {}
        self._bar = ProgressBar(
            TextColumn("read: {task.fields[records]:,}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            is_wanted=not sys.stdout.isatty(),
        )
        self.is_shown: bool = not self._bar.disable
        self._task = self._bar.add_task("", total=None, records=0)

    def __enter__(self) -> Self:
        """Show the progress."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the progress line."""
        self._bar.stop()

    def begin(self, starts: Positions, ends: Mapping[TopicPartition, int | None]) -> None:
        """Set the way to go.

        Args:
            starts: The first offset of each partition.
            ends: The offset after the last one of each; None for a partition without an end.
        """
        self._starts = starts
        known = {key: end for key, end in ends.items() if end is not None}
        if len(known) == len(starts):
            total = sum(max(end - starts[key], 0) for key, end in known.items())
            self._bar.update(self._task, total=total)

    def move(self, positions: Positions, record_count: int) -> None:
        """Move the bar.

        Args:
            positions: Current position of each partition in `begin`.
            record_count: Number of printed records.
        """
        done = sum(max(position - self._starts[key], 0) for key, position in positions.items())
        self._bar.update(self._task, completed=done, records=record_count)
