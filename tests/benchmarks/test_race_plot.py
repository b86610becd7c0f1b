"""The input of the race's picture: a report, or the page that was generated from it."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from race_plot import LIMIT, Bar, bars_of_page, bars_of_rows
from race_table import BEGIN, END, write_table
from report import Contestant, Options, Report
from report_values import Metric

METRICS = [Metric("kafka: rate", "records/s"), Metric("kafka: CPU per record", "us")]
METRICS += [Metric("kafka: peak memory", "MiB")]


def _report() -> Report:
    report = Report("Race", Options())
    figures = {"kprod": (2_450_000.0, 0.18), "aiokafka": (64_440.0, 12.2), LIMIT: (3e6, 0.03)}
    contestants = [
        Contestant(
            name,
            lambda rate=rate, cpu=cpu: {  # type: ignore[misc]
                "kafka: rate": rate,
                "kafka: CPU per record": cpu,
                "kafka: peak memory": 1.0,
            },
        )
        for name, (rate, cpu) in figures.items()
    ]
    report.compare(contestants, metric=METRICS, rounds=1)
    return report


def test_a_report_and_its_page_give_the_same_bars(tmp_path: Path) -> None:
    """To the digits that the page has."""
    report, page = _report(), tmp_path / "page.md"
    page.write_text(f"# Race\n{BEGIN}\n{END}\n", "utf-8")
    write_table(report, page)
    bars = list(bars_of_rows(report.rows))
    assert bars[0] == Bar("kafka", "kprod", 2_450_000.0, 0.18)
    found = list(bars_of_page(page.read_text("utf-8")))
    assert [bar._replace(rate=0) for bar in found] == [bar._replace(rate=0) for bar in bars]
    assert [bar.rate for bar in found] == pytest.approx([bar.rate for bar in bars], rel=1e-3)


@pytest.mark.slow
def test_the_picture_is_drawn_from_the_page(tmp_path: Path) -> None:
    """By a program of its own, since matplotlib keeps the fonts' files open."""
    path, root = tmp_path / "race.png", Path(__file__).parents[2]
    command = ["benchmarks/race_plot.py", "docs/performance.md", str(path)]
    subprocess.run([sys.executable, *command], cwd=root, check=True)
    with Image.open(path) as image:
        assert image.width == 1_100
        assert image.height < 800
