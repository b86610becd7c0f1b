"""Percentiles compared with those of sorted samples, and sums over processes."""

import random

import pytest
from hdrh.histogram import HdrHistogram

from kprod.perf.latency_tally import DIGITS, HIGHEST_US, LatencyTally
from tests.perf.exact import exact_percentile

MS = 1_000_000


@pytest.mark.parametrize("seed", range(3))
def test_percentiles_are_those_of_the_samples(seed: int) -> None:
    """To three digits; average and maximum exactly."""
    source = random.Random(seed)
    samples = [int(source.lognormvariate(1, 2) * MS) + 2_000 for _ in range(20_000)]
    tally = LatencyTally()
    tally.record(samples)
    for percent in (50.0, 95.0, 99.0, 99.9, 99.99):
        exact_ms = exact_percentile(samples, percent) / MS
        assert tally.percentile_ms(percent) == pytest.approx(exact_ms, rel=0.002)
    assert tally.max_ms == max(samples) / MS
    assert tally.average_ms == pytest.approx(sum(samples) / len(samples) / MS)


@pytest.mark.parametrize("latency_us", [1, 2_047, 2_048, 2_049, 4_095, 4_097, 123_457, 3 * 10**9])
def test_counts_are_in_the_buckets_of_the_histogram(latency_us: int) -> None:
    """The rounded latency is in HdrHistogram's bucket of the latency itself."""
    tally = LatencyTally()
    tally.record([latency_us * 1_000, 3_600_000_000_000])
    histogram = HdrHistogram(1, HIGHEST_US, DIGITS)
    histogram.record_value(latency_us)
    highest_us = histogram.get_value_at_percentile(50)
    assert tally.percentile_ms(50) == highest_us / 1_000


def test_tallies_of_processes_add_up() -> None:
    """Over the wire and together they are as if one had counted all."""
    one, other, both = LatencyTally(), LatencyTally(), LatencyTally()
    one.record([5 * MS] * 3)
    other.record([100 * MS, 7_200_000 * MS])
    both.record([5 * MS] * 3 + [100 * MS, 7_200_000 * MS])
    summed = LatencyTally.from_wire(one.to_wire())
    summed.add(LatencyTally.from_wire(other.to_wire()))
    summed.add(LatencyTally.from_wire(LatencyTally().to_wire()))
    assert summed.to_wire() == both.to_wire()
    assert summed.max_ms == 7_200_000
    assert summed.percentile_ms(50) == pytest.approx(5, rel=0.002)


def test_nothing_has_no_latency() -> None:
    """Zero, and no division by it."""
    tally = LatencyTally()
    tally.record([])
    assert (tally.count, tally.percentile_ms(99), tally.average_ms, tally.max_ms) == (0, 0, 0, 0)
