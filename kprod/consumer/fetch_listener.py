# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The callbacks of a fetcher, and its counters.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Thread-safety: the I/O thread; counts are read by any thread.
"""

from collections.abc import Callable
from typing import NamedTuple

from kprod.consumer.position import AssignedPartition
from kprod.errors import KprodError


class FetchListener(NamedTuple):
    """Callbacks for the results of a fetcher.

    Attributes:
        out_of_range: An offset is not in the leader's log.
        truncated: The log was truncated; gets partition, end offset and leader epoch.
        failed: A partition failed with an error that may not be retriable.
        works: A partition was fetched successfully.
    """

    out_of_range: Callable[[AssignedPartition], object]
    truncated: Callable[[AssignedPartition, int, int], object]
    failed: Callable[[AssignedPartition, KprodError], object]
    works: Callable[[AssignedPartition], object]


class FetchCounts:
    """Counters of fetches, for the metrics.

    Attributes:
        fetch_count: Number of responses.
        bytes_total: Total size of the records.
        latency_ms_total: Total latency of all fetches.
        latency_ms_max: Longest latency of a fetch.
    """

    def __init__(self) -> None:
        self.fetch_count: int = 0
        self.bytes_total: int = 0
        self.latency_ms_total: int = 0
        self.latency_ms_max: int = 0

    def note(self, latency_ms: int) -> None:
        """Count a response.

        Args:
            latency_ms: Time from the request to the response.
        """
        self.fetch_count += 1
        self.latency_ms_total += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)
