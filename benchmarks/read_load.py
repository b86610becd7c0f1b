"""The load of a reader: what it reads, what it checks, and what it has cost.

Thread-safety: one reader a process, on the main thread.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from measure import own_process_figures

CHECKED_COUNT = 500_000
CHUNK = 10_000
FETCH_BYTES = 4 << 20
IDLE_MAX_S = 20.0  # a reader to which nothing comes for so long has failed
QUEUES: Mapping[str, Mapping[str, int]] = {
    "as it comes": {},
    "1 GiB": {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 1 << 20},
    "1 GiB, fetches of 4 MiB": {
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1 << 20,
        "max.partition.fetch.bytes": FETCH_BYTES,
    },
}

Place = tuple[int, int]  # partition, offset


@dataclass(slots=True)
class ReadLoad:
    """A topic to read, and the records read so far.

    Attributes:
        address: `host:port`.
        topic: Filled; read from its beginning.
        partitions: Number of the topic's partitions.
        record_count: Number of the topic's records.
        seconds: Least time of reading; the current round is not finished.
        queue: A key of `QUEUES`.
        value_bytes: Lengths of the values that were read in the timed part.
    """

    address: str
    topic: str
    partitions: int
    record_count: int
    seconds: float
    queue: str
    value_bytes: int = field(default=0)
    _seen: int = field(default=0)
    _in_round: int = field(default=0)
    _began_s: float = field(default=0.0)
    _cpu_s: float = field(default=0.0)
    _elapsed_s: float = field(default=0.0)
    _idle_since_s: float = field(default=0.0)
    _next: dict[int, int] = field(default_factory=dict)

    @property
    def check_count(self) -> int:
        """Minimum number of records that the check reads."""
        return min(CHECKED_COUNT, self.record_count)

    def check(self, places: Sequence[Place]) -> bool:
        """Check that offsets follow one another, from 0.

        Args:
            places: Partition and offset of records as they came.

        Returns:
            Whether more are wanted.

        Raises:
            RuntimeError: They do not.
        """
        for partition, offset in places:
            if offset != self._next.get(partition, 0):
                wanted = self._next.get(partition, 0)
                raise RuntimeError(f"partition {partition}: offset {offset}, not {wanted}")
            self._next[partition] = offset + 1
            self._seen += 1
        return self._seen < self.check_count

    def begin(self) -> None:
        """Start the clocks; the reader has gone back to the beginning."""
        self._seen = 0
        self._cpu_s = time.process_time()
        self._began_s = self._idle_since_s = time.perf_counter()

    def take(self, count: int, value_bytes: int) -> bool:
        """Count records.

        Args:
            count: Number of records that have been read.
            value_bytes: The lengths of their values.

        Returns:
            Whether this is the end of a round: the reader must go back to the beginning.

        Raises:
            RuntimeError: Nothing came for long, or more than there is.
        """
        now_s = time.perf_counter()
        if count:
            self._idle_since_s = now_s
        elif now_s - self._idle_since_s > IDLE_MAX_S:
            raise RuntimeError(f"nothing came for {IDLE_MAX_S:g} s after {self._in_round} records")
        self._seen += count
        self._in_round += count
        self.value_bytes += value_bytes
        if self._in_round > self.record_count:
            raise RuntimeError(f"{self._in_round} records of {self.record_count}")
        if self._in_round < self.record_count:
            return False
        self._in_round = 0
        return True

    @property
    def goes_on(self) -> bool:
        """Whether the time is not over; stops the clocks if it is."""
        elapsed_s = time.perf_counter() - self._began_s
        if elapsed_s < self.seconds:
            return True
        self._elapsed_s = elapsed_s
        self._cpu_s = time.process_time() - self._cpu_s
        return False

    def figures(self) -> Mapping[str, float]:
        """The results of the run."""
        return {
            "count": self._seen,
            "elapsed_s": self._elapsed_s,
            "cpu_s": self._cpu_s,
            "value_bytes": self.value_bytes,
            "peak_bytes": own_process_figures()["peak_bytes"],
        }


def counted(found: Mapping[Any, Sequence[Any]]) -> tuple[int, int]:
    """Touch every value.

    Args:
        found: Records by partition.

    Returns:
        Number of records, and bytes of their values.
    """
    count = total = 0
    for records in found.values():
        count += len(records)
        for record in records:
            total += len(record.value)
    return count, total
