"""The arithmetic that every benchmark's claim rests on, and the files that it writes."""

import io
import json
from pathlib import Path

import pytest
from measure import child_figures, cost_ns, rate
from report import Contestant, Options, Report
from report_values import Metric, readable, row_of
from rich.console import Console

RATE = Metric("encode", "records/s")


def _report(*, quick: bool = False, rounds: int | None = None) -> Report:
    return Report("Encoding", Options(quick=quick, rounds=rounds), Console(file=io.StringIO()))


def test_a_row_is_the_median_and_its_spread() -> None:
    """The value is the median, the spread the range over it."""
    row = row_of(RATE, "kprod", [90.0, 100.0, 120.0])
    assert (row.value, row.n, row.spread, row.ratio) == (100.0, 3, 0.3, None)
    assert row.name == "kprod · encode"


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that slows down half way does not disturb the ratio."""
    row = row_of(RATE, "kprod", [200.0, 20.0, 2.0], baseline=("oracle", [100.0, 10.0, 1.0]))
    assert row.ratios == (2.0, 2.0, 2.0)
    assert row.ratio == pytest.approx(2.0)
    assert row.baseline == "oracle"


def test_contestants_take_turns() -> None:
    """Rounds alternate, so that both sides meet the same disturbances."""
    turns: list[str] = []

    def turn(name: str) -> Contestant:
        def measure() -> float:
            turns.append(name)
            return 1.0

        return Contestant(name, measure)

    report = _report()
    rows = report.compare([turn("a"), turn("b")], metric=RATE, baseline="b", rounds=3)
    assert turns == ["a", "b"] * 3
    assert [row.ratio for row in rows] == [1.0, 1.0]


def test_one_contestant_may_give_several_figures() -> None:
    """A mapping holds a figure per metric; others in it are left out."""
    metrics = [Metric("rate", "records/s"), Metric("cpu", "us/record", more_is_better=False)]
    figures = {"rate": 5.0, "cpu": 0.2, "unasked": 1.0}
    rows = _report().compare([Contestant("kprod", lambda: figures)], metric=metrics, rounds=1)
    assert [(row.metric, row.value) for row in rows] == [("rate", 5.0), ("cpu", 0.2)]


def test_quick_and_rounds_set_how_often_is_measured() -> None:
    """`--quick` lowers the rounds, `--rounds` overrides both."""
    steady = [Contestant("kprod", lambda: 1.0)]
    assert _report(quick=True).compare(steady, metric=RATE, rounds=9)[0].n == 3
    assert _report(quick=True, rounds=4).compare(steady, metric=RATE, rounds=9)[0].n == 4
    assert _report(quick=True).pick(1_000_000, 1_000) == 1_000


def test_own_samples_are_compared_with_a_series_added_before() -> None:
    """A curve's point is compared with the baseline's same point."""
    report = _report()
    report.add(RATE, "heap", [1.0], at=10)
    report.add(RATE, "heap", [8.0], at=100)
    row = report.add(RATE, "wheel", [4.0], baseline="heap", at=100)
    assert row.ratio == pytest.approx(0.5)


@pytest.mark.slow
def test_rate_and_cost_time_the_work_alone() -> None:
    """Each is a positive figure of the units that the work counted."""
    assert rate(lambda: lambda: 1000)() > 0
    assert cost_ns(lambda: lambda: 1000)() > 0


def test_a_child_prints_its_figures_last() -> None:
    """Whatever a child writes before its last line is not read."""
    script = "print('warming up'); print('{\"rate\": 3}')"
    assert child_figures(["-c", script], timeout_s=30) == {"rate": 3.0}


def test_a_failed_child_says_why() -> None:
    """The error carries the exit code and what the child wrote."""
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1.*no broker here"):
        child_figures(["-c", "raise SystemExit('no broker here')"], timeout_s=30)


@pytest.mark.slow
@pytest.mark.may_leak("matplotlib keeps the fonts it has opened")
def test_json_and_plot_hold_the_rows(tmp_path: Path) -> None:
    """Rows are found again in the JSON, and a plot is drawn of bars and of curves."""
    pytest.importorskip("matplotlib")
    from report_plot import draw  # noqa: PLC0415 - only where matplotlib is installed

    report = _report()
    report.add(RATE, "oracle", [10.0, 12.0])
    report.add(RATE, "kprod", [100.0, 132.0], baseline="oracle")
    curve = Metric("advance", "ns", more_is_better=False, against="pending timers")
    for at in (10, 1000):
        report.add(curve, "wheel", [1.0 * at], at=at)
    report.write_json(tmp_path / "out" / "rows.json")
    draw(report.title, list(report.metrics.values()), report.rows, tmp_path / "out" / "rows.svg")
    written = json.loads((tmp_path / "out" / "rows.json").read_text("utf-8"))
    assert [(r["name"], r["value"], r["ratio"]) for r in written["rows"][:2]] == [
        ("oracle · encode", 11.0, None),
        ("kprod · encode", 116.0, 10.5),
    ]
    assert written["machine"]["cpu_count"] > 0
    assert (tmp_path / "out" / "rows.svg").read_text("utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1834, "0.1834"), (999.0, "999"), (45_600.0, "45.6 k"), (4_600_000.0, "4.6 M")],
)
def test_readable_keeps_four_digits(value: float, text: str) -> None:
    """A person reads four digits and a suffix."""
    assert readable(value) == text
