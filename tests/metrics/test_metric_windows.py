"""Sums, peaks and windows against a plain list of recorded values and times."""

from hypothesis import given
from hypothesis import strategies as st

from kprod.metrics.metric_windows import WINDOW_MS, MetricWindows

STEPS = st.lists(
    st.tuples(st.integers(0, 3 * WINDOW_MS), st.integers(1, 1_000), st.booleans()), max_size=30
)


class _Counters:
    """One sum and one peak."""

    def __init__(self) -> None:
        self.count = 0
        self.value_max = 0


def _made(now_ms: int) -> tuple[MetricWindows, _Counters]:
    counters = _Counters()
    return MetricWindows(counters, ["count", "value_max"], now_ms), counters


def _record(counters: _Counters, value: int) -> None:
    counters.count += value
    counters.value_max = max(counters.value_max, value)


def test_the_first_window_counts_from_the_start() -> None:
    """No window is made up before the beginning."""
    windows, counters = _made(5_000)
    _record(counters, 40)
    assert windows.span(5_000 + 2_000) == (2_000, {"count": 40}, {"value_max": 40}, ())


def test_the_first_instant_is_taken_for_a_second() -> None:
    """A rate of a millisecond would say nothing."""
    assert _made(5_000)[0].span(5_001).elapsed_ms == 1_000


def test_values_older_than_two_windows_are_gone() -> None:
    """The sum stays, its growth of late is 0."""
    windows, counters = _made(0)
    _record(counters, 40)
    for now_ms in (WINDOW_MS, 2 * WINDOW_MS, 3 * WINDOW_MS):
        windows.advance(now_ms)
    assert counters.count == 40
    assert windows.span(3 * WINDOW_MS + 10)[1:] == ({"count": 0}, {"value_max": 0}, ())


def test_a_reader_does_not_need_the_sender_s_turn() -> None:
    """A sender that sleeps turns no window; what it recorded goes out of date all the same."""
    windows, counters = _made(0)
    _record(counters, 40)
    assert windows.span(WINDOW_MS + 10)[1:] == ({"count": 40}, {"value_max": 40}, ())
    assert windows.span(2 * WINDOW_MS + 10)[1:] == ({"count": 0}, {"value_max": 0}, ())


@given(STEPS)
def test_spans_are_those_of_a_list(steps: list[tuple[int, int, bool]]) -> None:
    """Growth and peak are of values recorded since the span began; it ends now, and is bounded.

    The recording thread turns the window before it records, as the sender does in each turn.
    """
    now_ms = 10_000
    windows, counters = _made(now_ms)
    recorded: list[tuple[int, int]] = []
    for wait_ms, value, is_recorded in steps:
        now_ms += wait_ms
        if is_recorded:
            windows.advance(now_ms)
            _record(counters, value)
            recorded.append((now_ms, value))
        span = windows.span(now_ms)
        since_ms = now_ms - span.elapsed_ms
        # Elapsed time below a second is rounded up: it may reach before the window's start.
        recent = [value for at_ms, value in recorded if at_ms >= since_ms]
        assert span.elapsed_ms <= 3 * WINDOW_MS
        assert counters.count == sum(value for _, value in recorded)
        assert span.sums["count"] <= sum(recent)
        assert span.peaks["value_max"] <= max(recent, default=0)
        latest = [value for at_ms, value in recorded if now_ms - at_ms < WINDOW_MS]
        assert span.sums["count"] >= sum(latest)
        assert span.peaks["value_max"] >= max(latest, default=0)
