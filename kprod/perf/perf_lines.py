"""Write a load's results as text: the lines of Kafka's own tool, then further measurements.

Thread-safety: pure functions.
Source: Kafka ProducerPerformance (tools 4.3.1) for the form of the lines; its latencies are whole
milliseconds, those of kprod have two more digits.
"""

from collections.abc import Iterator, Mapping, Sequence

from kprod.perf.latency_tally import LatencyTally
from kprod.perf.perf_round import Interval, Part, PerfResult
from kprod.wording import counted

MIB = 1 << 20
US_PER_S = 1_000_000
PERCENTILES = (("50th", 50.0), ("95th", 95.0), ("99th", 99.0), ("99.9th", 99.9))


def interval_line(interval: Interval) -> str:
    """Write what happened in an interval.

    Args:
        interval: The interval.

    Returns:
        A line without its end.
    """
    count, elapsed_s, latencies = interval.record_count, interval.elapsed_s, interval.latencies
    rate = count / elapsed_s if elapsed_s else 0.0
    mib = rate * interval.value_bytes / MIB
    return (
        f"{count} records sent, {rate:.1f} records/sec ({mib:.2f} MB/sec),"
        f" {latencies.average_ms:.1f} ms avg latency, {latencies.max_ms:.1f} ms max latency."
    )


def summary_lines(result: PerfResult, *, has_warmup: bool) -> Iterator[str]:
    """Write what a client has done: everything, then the steady state.

    Args:
        result: Whole.
        has_warmup: Whether there was a warm-up that does not count.

    Yields:
        Lines without their ends.
    """
    yield _total_line("records", result, result.whole)
    if has_warmup:
        yield _total_line("steady state records", result, result.steady)


def detail_lines(result: PerfResult, sample_every: int, topic_growth: int | None) -> Iterator[str]:
    """Write what Kafka's tool does not show.

    Args:
        result: Whole.
        sample_every: One latency in this many records was measured.
        topic_growth: Growth of the sum of end offsets; None if it was not measured.

    Yields:
        Lines without their ends.
    """
    measured = result.whole.latencies.count
    which = "every record" if sample_every == 1 else f"one record in {sample_every}"
    yield f"latency: {measured} measured ({which}), 99.99th {_ms(result.whole.latencies, 99.99)}"
    cpu_us = result.cpu_s * US_PER_S / result.sent_count if result.sent_count else 0.0
    line = f"client: {cpu_us:.2f} us of CPU a record"
    if result.peak_bytes is not None:
        line += f", {result.peak_bytes / MIB:.0f} MiB at most"
    yield line
    if result.wire_bytes is not None:
        yield f"record batches: {result.wire_bytes} bytes sent, {result.sent_bytes} bytes of values"
    if topic_growth is not None:
        yield f"brokers: {growth_text(result, topic_growth)}"
    for text, count in result.errors.most_common():
        yield f"failed: {count} × {text}"


def growth_text(result: PerfResult, topic_growth: int) -> str:
    """Compare the growth of the end offsets with the client's count of delivered records.

    Args:
        result: Whole.
        topic_growth: Growth of the sum of end offsets.

    Returns:
        Words for a line.
    """
    delivered = result.delivered_count
    text = f"end offsets grew by {topic_growth}, {counted(delivered, 'record')} delivered"
    if topic_growth == delivered:
        return f"{text}: they agree"
    if topic_growth > delivered:
        return f"{text}: {topic_growth - delivered} more (retries, or another producer's)"
    return f"{text}: {delivered - topic_growth} ARE MISSING"


def comparison_lines(results: Sequence[PerfResult]) -> Iterator[str]:
    """Set clients side by side.

    Args:
        results: Two or more rounds; ratios are to the first.

    Yields:
        A heading, and a line for each.
    """
    yield (
        f"{'client':<18}{'records/s':>12}{'ratio':>8}{'CPU us/record':>15}{'ratio':>8}"
        f"{'p50 ms':>10}{'p99 ms':>10}{'p99.9 ms':>10}"
    )
    first = results[0]
    for result in results:
        cells = (
            f"{result.client:<18}{result.whole.rate:>12,.0f}",
            f"{_ratio(result.whole.rate, first.whole.rate):>8}",
            f"{_cpu_us(result):>15.2f}{_ratio(_cpu_us(result), _cpu_us(first)):>8}",
            *(f"{result.steady.latencies.percentile_ms(p):>10.2f}" for p in (50.0, 99.0, 99.9)),
        )
        yield "".join(cells)


def metrics_lines(metrics: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Write a client's own metrics, one a line, in the order of their names.

    Args:
        metrics: Values by name, by group.

    Yields:
        Lines without their ends.
    """
    for group, values in sorted(metrics.items()):
        for name, value in sorted(values.items()):
            yield f"{f'{group}:{name}':<64} : {value:.3f}"


def _total_line(words: str, result: PerfResult, part: Part) -> str:
    value_bytes = result.sent_bytes / result.sent_count if result.sent_count else 0.0
    rate, latencies = part.rate, part.latencies
    percentiles = ", ".join(f"{_ms(latencies, percent)} {name}" for name, percent in PERCENTILES)
    return (
        f"{part.record_count} {words} sent, {rate:f} records/sec"
        f" ({rate * value_bytes / MIB:.2f} MB/sec),"
        f" {latencies.average_ms:.2f} ms avg latency, {latencies.max_ms:.2f} ms max latency,"
        f" {percentiles}."
    )


def _ms(latencies: LatencyTally, percent: float) -> str:
    return f"{latencies.percentile_ms(percent):.2f} ms"


def _cpu_us(result: PerfResult) -> float:
    return result.cpu_s * US_PER_S / result.sent_count if result.sent_count else 0.0


def _ratio(value: float, to: float) -> str:
    return f"{value / to:.2f} ×" if to else ""
