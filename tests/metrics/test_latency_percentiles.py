"""Percentiles of request latencies: buckets, windows, and beside the latencies themselves."""

import math
import random

import pytest

from kprod._core.metrics.counters import latency_bound_ms
from kprod.clock import ManualClock
from kprod.metrics.metric_windows import WINDOW_MS
from kprod.metrics.recorder import MetricsRecorder
from tests.perf.exact import exact_percentile

PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def _percentiles(recorder: MetricsRecorder, clock: ManualClock) -> dict[str, float]:
    values = recorder.read(clock.now_ms(), {})["producer-metrics"]
    return {name: values[f"request-latency-{name}"] for name in PERCENTS}


def test_buckets_are_within_an_eighth() -> None:
    """Each latency is at most its bucket's bound, and more than the bound below."""
    clock = ManualClock()
    for latency_ms in [*range(300), 1_000, 30_000, 120_000, 1_000_000]:
        recorder = MetricsRecorder(clock)
        recorder.answered(1, latency_ms, 0)
        (bucket,) = [at for at, n in enumerate(recorder.producer.latency_counts()) if n]
        assert latency_ms <= latency_bound_ms(bucket) <= latency_ms * 1.125, latency_ms
        assert bucket == 0 or latency_bound_ms(bucket - 1) < latency_ms


@pytest.mark.parametrize("latency_ms", [-5, 2**62])
def test_no_latency_is_outside(latency_ms: int) -> None:
    """The first and the last bucket take the others."""
    recorder = MetricsRecorder(ManualClock())
    recorder.answered(1, latency_ms, 0)
    counts = recorder.producer.latency_counts()
    assert sum(counts) == 1
    assert counts[0 if latency_ms < 0 else -1] == 1


@pytest.mark.parametrize("seed", range(3))
def test_percentiles_are_those_of_the_latencies(seed: int) -> None:
    """To an eighth, and never below."""
    source, clock = random.Random(seed), ManualClock()
    recorder = MetricsRecorder(clock)
    latencies = [int(source.lognormvariate(2, 1.5)) for _ in range(5_000)]
    for latency_ms in latencies:
        recorder.answered(1, latency_ms, 0)
    for name, value in _percentiles(recorder, clock).items():
        exact = exact_percentile(latencies, PERCENTS[name])
        assert exact <= value <= exact * 1.125


def test_old_latencies_are_forgotten() -> None:
    """Two windows back; none at all is NaN."""
    clock = ManualClock()
    recorder = MetricsRecorder(clock)
    assert all(map(math.isnan, _percentiles(recorder, clock).values()))
    recorder.answered(1, 500, 0)
    for latency_ms in (7, 7):
        clock.advance(WINDOW_MS)
        recorder.has_served(clock.now_ms())
        recorder.answered(1, latency_ms, 0)
    assert _percentiles(recorder, clock) == dict.fromkeys(PERCENTS, 7.0)
