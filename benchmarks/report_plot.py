"""Draw a report: bars for a comparison, lines for a curve, one panel per metric.

Why apart from `report`: matplotlib is needed here only, and takes a second to import.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from PIL import Image
from report_values import Metric, Row, readable

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

MARKERS = "osD^vPX"
PANEL_WIDTH_INCHES = 7.0
DOTS_PER_INCH = 100
PNG_COLOURS = 48
"""Enough for the lines, their bands and smooth letters; a third of the size of all colours."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "svg.hashsalt": "kprod",
}


def draw(title: str, metrics: Sequence[Metric], rows: Sequence[Row], path: Path) -> None:
    """Write the plot in the format that the path's suffix names.

    Args:
        title: Title of the figure.
        metrics: In the order of the panels.
        rows: At least one.
        path: Ends in png, svg or pdf; its directory is made if need be.
    """
    panels = [(metric, [row for row in rows if row.metric == metric.name]) for metric in metrics]
    series = list(dict.fromkeys(row.series for row in rows))
    heights = [
        4.2 if any(row.at is not None for row in rows) else 1.1 + 0.42 * len(rows)
        for _, rows in panels
    ]
    with mpl.rc_context(STYLE):
        # Without pyplot the canvas is Agg's, or the one of the suffix: never a window.
        figure = Figure(figsize=(PANEL_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for axes, (metric, shown) in zip(grid[:, 0], panels, strict=True):
            _panel(axes, metric, shown, series)
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the path's suffix names.

    Args:
        figure: Drawn, within `STYLE`.
        path: Ends in png, svg or pdf; its directory is made if need be.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        _save_small(figure, path)
    else:
        figure.savefig(path)


def _save_small(figure: Figure, path: Path) -> None:
    """Write a PNG that a repository can keep: few colours, as many dots as reading takes."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH, format="png")
    few = Image.open(drawn).convert("RGB").quantize(PNG_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _panel(axes: Axes, metric: Metric, rows: Sequence[Row], series: Sequence[str]) -> None:
    better = "more is better" if metric.more_is_better else "less is better"
    axes.set_title(f"{metric.name} ({better})")
    if any(row.at is not None for row in rows):
        _curves(axes, metric, rows, series)
    else:
        _bars(axes, metric, rows, series)


def _curves(axes: Axes, metric: Metric, rows: Sequence[Row], series: Sequence[str]) -> None:
    for index, name in enumerate(series):
        points = sorted(
            (row.at, row.value, min(row.samples), max(row.samples))
            for row in rows
            if row.series == name and row.at is not None
        )
        if not points:
            continue
        at, value, low, high = zip(*points, strict=True)
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(at, value, color=colour, marker=MARKERS[index % len(MARKERS)], label=name, ms=5)
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xticks(sorted({row.at for row in rows if row.at is not None}))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(metric.against)
    axes.set_ylabel(metric.unit)
    axes.grid(visible=True, which="major")
    axes.legend()


def _bars(axes: Axes, metric: Metric, rows: Sequence[Row], series: Sequence[str]) -> None:
    top = max(max(row.samples) for row in rows)
    for place, row in enumerate(rows):
        axes.barh(
            place, row.value, height=0.62, color=COLOURS[series.index(row.series) % len(COLOURS)]
        )
        axes.plot([min(row.samples), max(row.samples)], [place, place], color="#222222", lw=1.2)
        ratio = "" if row.ratio is None else f"   {row.ratio:.2f} ×"
        axes.text(max(row.samples) + top * 0.015, place, readable(row.value) + ratio, va="center")
    axes.set_yticks(range(len(rows)), [row.series for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, top * 1.3 or 1)  # all may be 0
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(metric.unit)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")
