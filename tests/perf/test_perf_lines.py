"""The lines of a load, and what they say of what the brokers have."""

import pytest

from kprod.perf.latency_tally import LatencyTally
from kprod.perf.perf_lines import (
    comparison_lines,
    detail_lines,
    growth_text,
    interval_line,
    metrics_lines,
)
from kprod.perf.perf_round import Interval, Part, PerfResult

MS = 1_000_000


def _result(client: str = "kprod", *, failed_count: int = 0) -> PerfResult:
    latencies = LatencyTally()
    latencies.record([2 * MS, 4 * MS])
    part = Part(200, 2.0, latencies)
    result = PerfResult(client, whole=part, steady=part, sent_bytes=20_000, cpu_s=0.001)
    if failed_count:
        result.errors["Disconnected: gone"] = failed_count
    return result


def test_an_interval_is_a_line_of_kafkas_tool() -> None:
    """Rate, MB of 1,048,576 bytes, average and maximum."""
    latencies = LatencyTally()
    latencies.record([3 * MS, 6 * MS])
    line = interval_line(Interval(5.0, 0.5, 1_000_000, 1_048.576, latencies))
    assert line == (
        "1000000 records sent, 2000000.0 records/sec (2000.00 MB/sec), 4.5 ms avg latency,"
        " 6.0 ms max latency."
    )


@pytest.mark.parametrize(
    ("growth", "end"),
    [
        (190, "190 records delivered: they agree"),
        (191, "190 records delivered: 1 more (retries, or another producer's)"),
        (189, "190 records delivered: 1 ARE MISSING"),
    ],
)
def test_what_brokers_have_is_held_against_what_was_delivered(growth: int, end: str) -> None:
    """Records that failed were not delivered."""
    assert growth_text(_result(failed_count=10), growth).endswith(end)


def test_details_name_failures_and_what_was_measured() -> None:
    """A client that does not count its batches has no line for them."""
    result = _result(failed_count=10)
    result.wire_bytes = result.peak_bytes = None
    assert list(detail_lines(result, 100, None)) == [
        "latency: 2 measured (one record in 100), 99.99th 4.00 ms",
        "client: 5.00 us of CPU a record",
        "failed: 10 × Disconnected: gone",
    ]


def test_clients_stand_beside_the_first() -> None:
    """Ratios of rate and CPU."""
    slow = _result("aiokafka")
    slow.whole = Part(200, 8.0)
    slow.cpu_s = 0.004
    heading, first, second = comparison_lines([_result(), slow])
    assert heading.split()[0] == "client"
    assert first.split()[:5] == ["kprod", "100", "1.00", "×", "5.00"]
    assert second.split()[:7] == ["aiokafka", "25", "0.25", "×", "20.00", "4.00", "×"]


def test_a_run_of_nothing_divides_by_nothing() -> None:
    """Stopped before the first record."""
    empty = PerfResult("kprod")
    assert list(comparison_lines([empty, empty]))[1].split()[:2] == ["kprod", "0"]
    assert next(iter(detail_lines(empty, 1, 0))).startswith("latency: 0 measured")


def test_metrics_are_sorted() -> None:
    """One a line, group and name."""
    lines = list(metrics_lines({"b": {"y": 2.0, "x": 1.0}, "a": {"z": float("nan")}}))
    assert [line.split() for line in lines] == [
        ["a:z", ":", "nan"],
        ["b:x", ":", "1.000"],
        ["b:y", ":", "2.000"],
    ]
