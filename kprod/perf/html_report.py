"""A load's report as one page of HTML: its options, its results and three plots.

The page has everything in it: plots are SVG, no script runs, nothing is fetched, so it can be sent
by mail and kept beside a ticket.

Thread-safety: one thread.
"""

import html
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from kprod.perf.latency_tally import LatencyTally
from kprod.perf.machine import facts_line, machine_facts
from kprod.perf.perf_lines import MIB, US_PER_S
from kprod.perf.perf_round import PerfResult

# Okabe and Ito's palette, which colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
PERCENTS = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
_DECADES_WITH_STEPS = 2
_FIGURE_INCHES = (9.0, 3.2)
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "svg.hashsalt": "kprod",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; padding: 0 1em;
  max-width: 1060px; }}
table {{ border-collapse: collapse; margin: 1em 0; width: 100%; font-size: 14px; }}
th, td {{ padding: .25em .5em; border-bottom: 1px solid #ddd; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; white-space: nowrap; }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)); gap: .1em 2em; }}
dl div {{ display: flex; justify-content: space-between; border-bottom: 1px solid #ddd; }}
dt {{ color: #666; }} dd {{ margin: 0; overflow-wrap: anywhere; text-align: right; }}
.bad {{ color: #b00020; }} .small {{ color: #666; font-size: 13px; }}
svg {{ width: 100%; height: auto; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""

Described = Mapping[str, object]


def html_report(
    title: str, asked: Described, results: Sequence[PerfResult], growths: Sequence[int | None]
) -> str:
    """Write the page.

    Args:
        title: Title of the page.
        asked: The load's options by name, without secrets.
        results: The results, at least one.
        growths: The growth of the topic's end offsets for each result.

    Returns:
        HTML.
    """
    parts = [
        _described(asked),
        _results_table(results, growths),
        *_remarks(results),
        _plot("Latency by percentile", _draw_percentiles, results),
        _plot("Records per second", _draw_rates, results),
        _plot("Latency over time: median, and the longest of each interval", _draw_times, results),
        f'<p class="small">{html.escape(facts_line(machine_facts()))}</p>',
    ]
    return _PAGE.format(title=html.escape(title), body="\n".join(parts))


def _described(asked: Described) -> str:
    pairs = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(_shown(value))}</dd></div>\n"
        for name, value in asked.items()
    )
    return f"<dl>{pairs}</dl>"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,.12g}" if isinstance(value, (int, float)) else str(value)


def _results_table(results: Sequence[PerfResult], growths: Sequence[int | None]) -> str:
    heads = (
        *("client", "records", "records/s", "MB/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms"),
        *("CPU us", "MiB", "failed", "brokers"),
    )
    rows = [
        (_label(results, index), *_result_cells(result), _broker_cell(result, growths[index]))
        for index, result in enumerate(results)
    ]
    return _table(heads, rows) + (
        '<p class="small">CPU is of a record, MiB the largest size of the client\'s processes;'
        " brokers: whether the topic's end offsets grew by the records delivered.</p>"
    )


def _result_cells(result: PerfResult) -> Iterator[str]:
    latencies, elapsed_s = result.steady.latencies, result.whole.elapsed_s or 1.0
    yield f"{result.sent_count:,}"
    yield f"{result.whole.rate:,.0f}"
    yield f"{result.sent_bytes / elapsed_s / MIB:.2f}"
    for percent in (50.0, 99.0, 99.9):
        yield f"{latencies.percentile_ms(percent):,.1f}"
    yield f"{latencies.max_ms:,.1f}"
    yield f"{result.cpu_s * US_PER_S / max(result.sent_count, 1):.2f}"
    yield "" if result.peak_bytes is None else f"{result.peak_bytes / MIB:.0f}"
    yield f"{result.errors.total():,}"


def _broker_cell(result: PerfResult, growth: int | None) -> str:
    if growth is None:
        return ""
    more = growth - result.delivered_count
    return "agree" if more == 0 else f"{more:,} more" if more > 0 else f"{-more:,} MISSING"


def _remarks(results: Sequence[PerfResult]) -> Iterator[str]:
    for index, result in enumerate(results):
        for text, count in result.errors.most_common():
            line = f"{_label(results, index)}: {count:,} × {text}"
            yield f'<p class="bad">{html.escape(line)}</p>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td{_kind(text)}>{html.escape(text)}</td>' for text in row)}</tr>\n"
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _kind(cell: str) -> str:
    return ' class="bad"' if cell.endswith("MISSING") else ""


def _plot(
    title: str, draw: Callable[[Axes, Sequence[PerfResult]], None], results: Sequence[PerfResult]
) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_FIGURE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        draw(axes, results)
        if len(results) > 1:  # beside the curves, which it would cover
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Creator": None, "Date": None})
    # Behind the XML declaration and the document type, which HTML does not have.
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def _draw_percentiles(axes: Axes, results: Sequence[PerfResult]) -> None:
    """Draw by the share of records that waited longer, so that rare ones have room."""
    for index, result in enumerate(results):
        places = [_place(percent) for percent in PERCENTS]
        axes.plot(
            places,
            _percentiles(result.steady.latencies),
            color=_colour(index),
            marker="o",
            markersize=3,
            label=_label(results, index),
        )
    _scale_milliseconds(axes)
    shown = (0.0, 90.0, 99.0, 99.9, 99.99)
    axes.set_xscale("log")
    axes.set_xticks([_place(percent) for percent in shown], [f"{each:g} %" for each in shown])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("share of the records that took at most so long")


def _draw_rates(axes: Axes, results: Sequence[PerfResult]) -> None:
    for index, result in enumerate(results):
        seconds = [interval.at_s for interval in result.intervals]
        rates = [each.record_count / each.elapsed_s for each in result.intervals]
        axes.plot(
            seconds,
            rates,
            color=_colour(index),
            marker="o",
            markersize=3,
            label=_label(results, index),
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("seconds")


def _draw_times(axes: Axes, results: Sequence[PerfResult]) -> None:
    for index, result in enumerate(results):
        seconds = [interval.at_s for interval in result.intervals]
        # An interval in which nothing was delivered has no latency: a gap.
        medians = [each.latencies.percentile_ms(50) or math.nan for each in result.intervals]
        longest = [each.latencies.max_ms or math.nan for each in result.intervals]
        label = _label(results, index)
        axes.plot(seconds, medians, color=_colour(index), marker="o", markersize=3, label=label)
        axes.plot(seconds, longest, color=_colour(index), linestyle=":")
    axes.set_xlim(left=0)
    _scale_milliseconds(axes)
    axes.set_xlabel("seconds")


def _scale_milliseconds(axes: Axes) -> None:
    """A scale of logarithms that has several numbers also where it shows one decade only."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    is_wide = high > low * 10**_DECADES_WITH_STEPS
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("ms")


def _percentiles(latencies: LatencyTally) -> list[float]:
    return [latencies.percentile_ms(percent) for percent in PERCENTS]


def _place(percent: float) -> float:
    return 100.0 / (100.0 - percent)


def _label(results: Sequence[PerfResult], index: int) -> str:
    """The client's name, with the number of its round if it has several."""
    client = results[index].client
    same = [at for at, result in enumerate(results) if result.client == client]
    return client if len(same) == 1 else f"{client}, round {same.index(index) + 1}"


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
