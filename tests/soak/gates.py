"""The conditions of a soak: memory, descriptors and threads stay level, latency recovers.

Thread-safety: pure functions.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

RSS_GROWTH_MAX = 16 << 20  # bytes in ten minutes, between the medians of two windows
BLOCKS_MORE = 5_000  # allocations of Python, of about 137,000: records in flight come and go
P99_RATIO_MAX = 2.0
RATE_SHARE_MIN = 0.9
DESCRIPTORS_MORE = 4  # a connection may be made again while the sample is taken
WINDOW = 5  # samples, at each end
_MINUTES = 10.0


class Sample(NamedTuple):
    """One look at the process.

    Attributes:
        at_s: Since the load began.
        rss_bytes: Resident memory, less what the ledger of the run needs.
        blocks: Memory blocks that Python has allocated and not freed, of any size.
        descriptors: Open files.
        threads: Number of the process's threads.
        sent: Records so far.
        p99_ms: Latency of the acknowledgements since the last look; NaN if there were none.
        is_disturbed: Whether a fault was active since the last check, or had just ended.
    """

    at_s: float
    rss_bytes: int
    blocks: int
    descriptors: int
    threads: int
    sent: int
    p99_ms: float
    is_disturbed: bool


def broken_gates(samples: Sequence[Sample], rate_wanted: float) -> Iterator[str]:
    """Compare the end of a run with its beginning.

    Args:
        samples: After the warm-up, evenly spaced; at least four windows of them.
        rate_wanted: Records a second that the load asked for.

    Yields:
        The fault, with the measured value and the limit.
    """
    if len(samples) < 4 * WINDOW:
        yield f"{len(samples)} samples are too few to judge, {4 * WINDOW} are needed"
        return
    first, last = samples[:WINDOW], samples[-WINDOW:]
    lasted_s = samples[-1].at_s - samples[0].at_s
    growth = _median(last, "rss_bytes") - _median(first, "rss_bytes")
    limit = RSS_GROWTH_MAX * max(lasted_s / 60 / _MINUTES, 1.0)
    if growth > limit:
        grown, allowed = growth / 2**20, limit / 2**20
        yield f"memory grew by {grown:.1f} MiB in {lasted_s:.0f} s, {allowed:.0f} are allowed"
    for name, more in (
        ("blocks", BLOCKS_MORE),
        ("descriptors", DESCRIPTORS_MORE),
        ("threads", 0),
    ):
        before, after = _median(first, name), _median(last, name)
        if after > before + more:
            yield f"{name}: {before:.0f} at first, {after:.0f} at last"
    rate = (samples[-1].sent - samples[0].sent) / lasted_s
    if rate < RATE_SHARE_MIN * rate_wanted:
        yield f"{rate:,.0f} records/s, {rate_wanted:,.0f} were asked for"
    calm = [sample.p99_ms for sample in samples if not sample.is_disturbed]
    calm = [value for value in calm if value == value]  # noqa: PLR0124 - no NaN
    if len(calm) < 2 * WINDOW:
        yield f"{len(calm)} looks without a fault are too few to judge latency by"
        return
    base, late = statistics.median(calm[: len(calm) // 2]), statistics.median(calm[-WINDOW:])
    if late > P99_RATIO_MAX * max(base, 1.0):
        yield f"p99 of {late:.1f} ms at last, {base:.1f} ms in the first half without faults"


def _median(samples: Sequence[Sample], name: str) -> float:
    return float(statistics.median(getattr(sample, name) for sample in samples))
