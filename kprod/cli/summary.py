"""Formats the report of the demonstration.

Thread-safety: pure functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kprod.cli.comparison import Comparison

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Statistics of sending.

    Attributes:
        record_count: Number of records sent.
        batch_count: Number of batches sent, counted at each attempt.
        bytes_count: Total size of keys and values.
        elapsed_ns: Time from the first `send` to the last delivery.
        latencies_ns: Times from `send` to delivery, for a sample of the records.
        failures: Texts of the first few failures.
        failure_count: Number of failed sends.
    """

    record_count: int
    batch_count: int
    bytes_count: int
    elapsed_ns: int
    latencies_ns: Sequence[int]
    failures: Sequence[str] = ()
    failure_count: int = 0


def percentile(samples: Sequence[int], percent: int) -> int | None:
    """Return the smallest sample that is not below the given percentage of all samples.

    Args:
        samples: Samples in any order.
        percent: The percentage, 1 to 100.

    Returns:
        A sample; None if there are none.
    """
    if not samples:
        return None
    rank = -(-len(samples) * percent // 100)
    return sorted(samples)[max(rank, 1) - 1]


def summary_lines(sending: Sending, comparison: Comparison, *, topic: str) -> list[str]:
    """Return the lines of the report, one fact each.

    Args:
        sending: Statistics of sending.
        comparison: The comparison of sent and received records.
        topic: The topic.

    Returns:
        The lines without line ends; the last says how many records were verified.
    """
    seconds = sending.elapsed_ns / NS_PER_S
    rate = sending.record_count / seconds if seconds else 0.0
    facts = [
        ("topic", topic),
        ("records", f"{sending.record_count:,}"),
        ("bytes", f"{sending.bytes_count:,}"),
        ("time", f"{seconds:.2f} s"),
        ("records/s", f"{rate:,.0f}"),
        ("batches", f"{sending.batch_count:,}"),
        ("records/batch", f"{sending.record_count / max(sending.batch_count, 1):,.1f}"),
        ("latency p50", _milliseconds(percentile(sending.latencies_ns, 50))),
        ("latency p99", _milliseconds(percentile(sending.latencies_ns, 99))),
    ]
    facts += [
        (f"partition {partition}", f"{count:,}")
        for partition, count in sorted(comparison.verified.items())
    ]
    facts += [("failed", f"{sending.failure_count:,}")] if sending.failure_count else []
    facts += [("failure", text) for text in sending.failures]
    width = max(len(name) for name, _ in facts) + 2
    lines = [f"{name:<{width}}{value}" for name, value in facts]
    lines += _faults(comparison)
    return [*lines, f"verified: {comparison.verified_count:,} of {sending.record_count:,}"]


def _milliseconds(latency_ns: int | None) -> str:
    return "unknown" if latency_ns is None else f"{latency_ns / NS_PER_MS:.1f} ms"


def _faults(comparison: Comparison) -> list[str]:
    faults = (
        ("acknowledged and not found", comparison.missing_count),
        ("found with other contents", comparison.different_count),
        ("found and never sent", comparison.surplus_count),
    )
    return [f"{what}: {count:,}" for what, count in faults if count]
