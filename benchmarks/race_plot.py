"""The race's picture: two charts, rate and CPU, each with kprod and its peers before every broker.

A broker's maximum rate is a line across its clients' bars, not a bar: it is their limit, and no
client. If it is many times the fastest client's rate, it is written at the edge instead, since a
scale that reaches it would hide the clients' differences.

    python benchmarks/race_plot.py docs/performance.md docs/plots/race.png

draws the tables of a page again, which `race_table` wrote there.

Thread-safety: one thread, the caller's.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from race_table import BEGIN, END, TITLES
from report_plot import STYLE, save
from report_values import Row

LIMIT = "broker's limit"
OURS, THEIRS, BOUND = "#0072b2", "#9a9a9a", "#d55e00"
ROW_INCHES, EDGE_INCHES, WIDTH_INCHES = 0.27, 1.5, 11.0
LIMIT_SHOWN_TO = 1.6
"""The limit is drawn where it is at most this multiple of the fastest client of all."""

_SUFFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


class Bar(NamedTuple):
    """A client before a broker, or the broker's limit.

    Attributes:
        broker: A key of the titles of `draw_bars`.
        client: Its name; `LIMIT` for the limit.
        rate: Records per second.
        cpu_us: CPU time of a record.
    """

    broker: str
    client: str
    rate: float
    cpu_us: float


def bars_of_rows(rows: Sequence[Row]) -> Iterator[Bar]:
    """Find what a report says of rate and CPU.

    Args:
        rows: Results of a race.

    Yields:
        A bar for each client and broker, in the order of the rows.
    """
    found = {(row.series, row.metric): row.value for row in rows}
    for (client, metric), value in found.items():
        broker, _, name = metric.partition(": ")
        cpu_us = found.get((client, f"{broker}: CPU per record"))
        if name == "rate" and cpu_us is not None:
            yield Bar(broker, client, value, cpu_us)


def bars_of_page(text: str) -> Iterator[Bar]:
    """Read what `race_table.write_table` wrote into a page.

    Args:
        text: The page.

    Yields:
        A bar for each line of its tables.
    """
    _, _, rest = text.partition(BEGIN)
    broker = ""
    for line in rest.partition(END)[0].splitlines():
        heading = re.fullmatch(r"\*\*(.+)\*\*", line)
        if heading is not None:
            broker = next(name for name, title in TITLES.items() if title == heading[1])
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rate = re.match(r"([\d.]+) ?([kMG]?) \(n=", cells[1]) if len(cells) > 1 else None
        if rate is not None:
            yield Bar(broker, cells[0], float(rate[1]) * _SUFFIXES[rate[2]], float(cells[3]))


def draw_bars(
    title: str, bars: Sequence[Bar], path: Path, *, titles: Mapping[str, str] = TITLES
) -> None:
    """Draw two charts side by side, brokers below one another.

    Args:
        title: Title of the figure.
        bars: At least one client's.
        path: Ends in png, svg or pdf; its directory is made if need be.
        titles: Names of the bars' brokers.
    """
    clients = [bar for bar in bars if bar.client != LIMIT]
    limits = {bar.broker: bar.rate for bar in bars if bar.client == LIMIT}
    places = _places(clients)
    height = EDGE_INCHES + ROW_INCHES * (max(places.values()) + 1)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        rate_axes, cpu_axes = figure.subplots(1, 2, sharey=True)
        _draw_clients(rate_axes, places, titles, lambda bar: bar.rate / 1e6)
        _draw_clients(cpu_axes, places, titles, lambda bar: bar.cpu_us)
        rate_axes.set_title("Million records a second: more is better")
        cpu_axes.set_title("CPU of the client, us a record: less is better")
        _draw_limits(rate_axes, places, limits)
        for axes in (rate_axes, cpu_axes):
            axes.xaxis.set_major_locator(MaxNLocator(6))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=True, axis="x")
        rate_axes.set_yticks(list(places.values()), [bar.client for bar in places])
        rate_axes.set_ylim(max(places.values()) + 1, -0.4)
        save(figure, path)


def _places(clients: Sequence[Bar]) -> dict[Bar, float]:
    """The positions of the bars: one below the other, with a line for each broker's name."""
    places: dict[Bar, float] = {}
    at = 0.0
    for broker in dict.fromkeys(bar.broker for bar in clients):
        at += 1
        for bar in clients:
            if bar.broker == broker:
                places[bar] = at
                at += 1
    return places


def _draw_clients(
    axes: Axes,
    places: dict[Bar, float],
    titles: Mapping[str, str],
    value_of: Callable[[Bar], float],
) -> None:
    top = max(map(value_of, places))
    for bar, place in places.items():
        is_ours = bar.client.startswith("kprod")
        axes.barh(place, value_of(bar), height=0.7, color=OURS if is_ours else THEIRS)
        axes.text(value_of(bar) + top * 0.01, place, f"{value_of(bar):.3g}", va="center", size=8)
    for broker in dict.fromkeys(bar.broker for bar in places):
        first = min(place for bar, place in places.items() if bar.broker == broker)
        axes.text(
            top * 0.01, first - 0.95, titles[broker], size=10, weight="bold", va="center"
        )  # beside the axis, which would cross it
    axes.set_xlim(0, top * 1.15 or 1)


def _draw_limits(axes: Axes, places: dict[Bar, float], limits: dict[str, float]) -> None:
    """Draw what each broker can take across its clients, or write it where it is out of sight."""
    fastest = max(bar.rate for bar in places)
    shown = [limit for limit in limits.values() if limit <= fastest * LIMIT_SHOWN_TO]
    axes.set_xlim(0, max([fastest, *shown]) * 1.15 / 1e6)
    for broker, limit in limits.items():
        rows = [place for bar, place in places.items() if bar.broker == broker]
        if not rows:
            continue
        text = f"broker's limit {limit / 1e6:.3g}"
        if limit in shown:
            axes.plot([limit / 1e6] * 2, [min(rows) - 0.5, max(rows) + 0.5], color=BOUND, lw=1.6)
            axes.text(
                limit / 1e6, max(rows) + 0.55, text, color=BOUND, size=8, ha="center", va="top"
            )
        else:
            edge = axes.get_xlim()[1]
            axes.text(
                edge, min(rows) - 0.95, f"{text} →", color=BOUND, size=8, ha="right", va="center"
            )


if __name__ == "__main__":
    page, picture = map(Path, sys.argv[1:])
    found = list(bars_of_page(page.read_text("utf-8")))
    draw_bars("Kafka producers, sustained, values of 100 bytes", found, picture)
