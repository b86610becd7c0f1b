"""The sender at a handed-over GIL: its waits are summarised, and each way ends."""

from pathlib import Path

import pytest
from gil_handover import METRICS, compiled, figures_of, measure


def test_waits_are_ranked() -> None:
    """By the nearest rank, and the caller's loss is shared among the sender's turns."""
    waits_ns = [1_000 * number for number in range(200, 0, -1)]
    figures = figures_of(waits_ns, 2.0, turns_per_s=75.0, alone_per_s=100.0)
    waits = [figures[f"wait, {name}"] for name in ("p50", "p90", "p99", "max")]
    assert waits == [100, 180, 198, 200]
    assert figures["sender's turns"] == 100
    assert figures["caller's turns, share of alone"] == 75
    assert figures["cost"] == pytest.approx(2_500)  # a quarter of a second in a hundred turns
    only = figures_of([3_000], 1.0, turns_per_s=1.0, alone_per_s=1.0)
    assert [only["wait, p50"], only["wait, max"], only["cost"]] == [3, 3, 0]


@pytest.mark.long
def test_each_way_measures_some_waits(tmp_path: Path) -> None:
    """Compiled here; the sender stops when the caller does."""
    loop = compiled(tmp_path)
    assert set(loop.WAYS) == {"nothing", "release", "release and yield", "release until taken"}
    for way in loop.WAYS.values():
        figures = measure(loop, way, 0.05, is_crowded=False)
        assert figures.keys() == {metric.name for metric in METRICS}
        assert 0 <= figures["wait, p50"] <= figures["wait, max"]
