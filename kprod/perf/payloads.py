"""The values of records: made up, read from a file, or the records' own numbers.

Values are made before the clock starts, a pool of some thousands that is gone through again and
again: what a client is measured by is the sending. A pool is larger than a batch, so a codec finds
nothing in a batch that it would not find in random capitals.

Thread-safety: one thread.
Source: Kafka ProducerPerformance (tools 4.3.1) for random capitals and the three kinds.
"""

import random
from array import array
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from kprod.errors import ConfigError
from kprod.perf.pace import BLOCK_COUNT
from kprod.perf.workload import PayloadPlan

POOL_COUNT = 10_000
POOL_BYTES_MAX = 64 << 20
FILE_BYTES_MAX = 512 << 20
_CAPITALS = bytes(range(ord("A"), ord("Z") + 1))
_CAPITAL_OF = bytes(_CAPITALS[byte % len(_CAPITALS)] for byte in range(256))


class Payloads:
    """Values by the records' numbers.

    Args:
        pool: At least one value; record n has value n modulo the pool's length. None makes each
            value the record's number.
    """

    __slots__ = ("_ends", "_pool")

    def __init__(self, pool: Sequence[bytes] | None) -> None:
        # As long as a block, which then has two pieces at most.
        self._pool = None if pool is None else list(pool) * -(-BLOCK_COUNT // len(pool))
        # At index n, the bytes of the pool's first n values.
        self._ends = array("q", accumulate(map(len, self._pool or ()), initial=0))

    def block(self, first: int, count: int) -> Sequence[bytes]:
        """Return the values of records in a row.

        Args:
            first: Number of the first record, from 0.
            count: Number of values, 1 to `BLOCK_COUNT`.

        Returns:
            That number of values, which must not be changed.
        """
        pool = self._pool
        if pool is None:
            return [b"%d" % number for number in range(first, first + count)]
        start = first % len(pool)
        if start == 0 and count == len(pool):
            return pool
        values = pool[start : start + count]
        return values + pool[: count - len(values)]

    def size_bytes(self, first: int, count: int) -> int:
        """Count the bytes of the values that `block` returns.

        Args:
            first: As there.
            count: As there.

        Returns:
            The sum of their lengths.
        """
        if self._pool is None:
            return sum(map(len, self.block(first, count)))
        return self._bytes_before(first + count) - self._bytes_before(first)

    def _bytes_before(self, number: int) -> int:
        rounds, place = divmod(number, len(self._ends) - 1)
        return rounds * self._ends[-1] + self._ends[place]


def payloads_of(plan: PayloadPlan) -> Payloads:
    """Create the values of a plan.

    Args:
        plan: The plan.

    Returns:
        All values.

    Raises:
        ConfigError: The file is empty, or larger than `FILE_BYTES_MAX`.
        OSError: The file cannot be read.
    """
    if plan.is_monotonic:
        return Payloads(None)
    source = random.Random(plan.seed)  # noqa: S311 - a load, not a secret
    if plan.file is None:
        return Payloads(_random_pool(source, plan.record_size or 0))
    values = read_values(Path(plan.file), plan.delimiter)
    if plan.is_in_order:
        return Payloads(values)
    return Payloads(source.choices(values, k=max(POOL_COUNT, len(values))))


def read_values(file: Path, delimiter: str) -> list[bytes]:
    """Read a file of values.

    Args:
        file: A file of values, each followed by the delimiter, which the last may lack.
        delimiter: At least one byte; each character is the byte with its number.

    Returns:
        At least one value; empty ones are left out.

    Raises:
        ConfigError: There is none, or the file is larger than `FILE_BYTES_MAX`.
        OSError: The file cannot be read.
    """
    with file.open("rb") as stream:
        content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(
            f"payload file {str(file)!r} has more than {FILE_BYTES_MAX} bytes: all values are kept"
            " in memory while the load runs; give a part of it"
        )
    values = [value for value in content.split(delimiter.encode("latin-1")) if value]
    if not values:
        raise ConfigError(f"payload file {str(file)!r} has no value in it")
    return values


def _random_pool(source: random.Random, size_bytes: int) -> list[bytes]:
    count = max(1, min(POOL_COUNT, POOL_BYTES_MAX // max(size_bytes, 1)))
    return [source.randbytes(size_bytes).translate(_CAPITAL_OF) for _ in range(count)]
