"""The listener of a fetcher, and its counters.

Thread-safety: the I/O thread; counts are read by any thread.
"""

from collections.abc import Callable
from typing import NamedTuple

from kprod.consumer.position import AssignedPartition
from kprod.errors import KprodError


class FetchListener(NamedTuple):
    """Called with the findings of a fetcher.

    Attributes:
        out_of_range: An offset is not in the leader's log.
        truncated: The log was cut: partition, end offset, epoch.
        failed: A failure that time may not mend.
        works: A partition was fetched.
    """

    out_of_range: Callable[[AssignedPartition], object]
    truncated: Callable[[AssignedPartition, int, int], object]
    failed: Callable[[AssignedPartition, KprodError], object]
    works: Callable[[AssignedPartition], object]


class FetchCounts:
    """Counters of fetches, for metrics.

    Attributes:
        fetch_count: Responses.
        bytes_total: Of records.
        latency_ms_total: Of all fetches.
        latency_ms_max: Of one fetch.
    """

    __slots__ = ("bytes_total", "fetch_count", "latency_ms_max", "latency_ms_total")

    def __init__(self) -> None:
        self.fetch_count: int = 0
        self.bytes_total: int = 0
        self.latency_ms_total: int = 0
        self.latency_ms_max: int = 0
