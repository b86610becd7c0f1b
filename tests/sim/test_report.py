"""The page has the figures of the stored run, and a report comes back from its file."""

from pathlib import Path

from tests.sim.report import COUNTERS_FROM, PAGE, Report


def _report(seeds: int, failed: list[int]) -> Report:
    return Report("c0ffee", 7, seeds, 2, 10.0, 19.5, 1_000, failed, {"acknowledged": 1_234})


def test_the_page_has_the_figures_of_the_stored_run() -> None:
    """`python -m tests.sim figures` writes them."""
    assert Report.stored().figures() in PAGE.read_text(encoding="utf-8")


def test_a_stored_report_is_the_same_report(tmp_path: Path) -> None:
    """And says the same."""
    path = tmp_path / "run.json"
    report = _report(50, [9])
    report.store(path)
    assert Report.stored(path) == report
    assert "1 seeds with findings: [9]" in report.text()
    assert "findings at the seeds [9]" in report.figures()


def test_only_a_long_run_must_show_every_state() -> None:
    """A run of all seeds without a counter says which."""
    assert _report(50, []).absent == []
    assert "fault cut" in _report(COUNTERS_FROM, []).absent
    assert "never seen: " in _report(COUNTERS_FROM, []).text()
