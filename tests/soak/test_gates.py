"""The gates of a soak hold for a level run, and each is broken by a run that breaks it alone."""

from typing import Any

import pytest

from tests.soak.gates import Sample, broken_gates
from tests.soak.soak import Soak, SoakPlan

RATE = 1_000


def _level(count: int = 40) -> list[Sample]:
    return [
        Sample(
            at_s=2.0 * number,
            rss_bytes=100 << 20,
            blocks=137_000,
            descriptors=12,
            threads=5,
            sent=2 * RATE * number,
            p99_ms=8.0,
            is_disturbed=number % 5 == 0,
        )
        for number in range(count)
    ]


def test_a_level_run_passes() -> None:
    """Also with samples that have seen no acknowledgement."""
    samples = _level()
    samples[3] = samples[3]._replace(p99_ms=float("nan"))
    assert list(broken_gates(samples, RATE)) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rss_bytes": 120 << 20}, "memory grew by 20.0 MiB"),
        ({"blocks": 143_000}, "blocks: 137000 at first, 143000 at last"),
        ({"descriptors": 20}, "descriptors: 12 at first, 20 at last"),
        ({"threads": 6}, "threads: 5 at first, 6 at last"),
        ({"p99_ms": 17.0}, "p99 of 17.0 ms at last"),
    ],
)
def test_each_gate_is_broken_alone(change: dict[str, Any], text: str) -> None:
    """The last samples differ in one thing."""
    samples = _level()
    samples[-10:] = [sample._replace(**change) for sample in samples[-10:]]
    broken = list(broken_gates(samples, RATE))
    assert len(broken) == 1
    assert broken[0].startswith(text)


def test_a_load_that_was_too_slow_is_told() -> None:
    """Half of the time asked for."""
    assert any("records/s" in text for text in broken_gates(_level(), 2 * RATE))


def test_too_few_samples_judge_nothing() -> None:
    """That is said, not passed."""
    assert any("too few" in text for text in broken_gates(_level(10), RATE))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_short_soak_loses_nothing() -> None:
    """Some seconds with faults close together; the gates that need minutes are not judged."""
    plan = SoakPlan(load_s=6, calm_s=2, warm_up_s=0, rate=2_000, pause_s=(0.3, 1.0))
    report = Soak(plan).run()
    assert report.verdict.is_clean, report.text()
    assert report.verdict.acknowledged > RATE
    assert sum(report.faults.values()) >= 1
    assert report.undelivered == 0
