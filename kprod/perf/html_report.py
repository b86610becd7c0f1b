"""A load's report as one page of HTML: its options, its results and three plots.

The page has everything in it: plots are SVG, no script runs, nothing is fetched, so it can be sent
by mail and kept beside a ticket.

Thread-safety: one thread.
"""

import html
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from kprod.perf.latency_tally import LatencyTally
from kprod.perf.machine import facts_line, machine_facts
from kprod.perf.perf_lines import MIB, US_PER_S, growth_text
from kprod.perf.perf_round import PerfResult

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
PERCENTS = (0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)
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
  max-width: 960px; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
.bad {{ color: #b00020; }} .small {{ color: #666; font-size: 13px; }} svg {{ max-width: 100%; }}
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
        title: Of the page.
        asked: The load's options by name; secrets must not be among them.
        results: At least one.
        growths: For each result, by how much the topic's end offsets grew.

    Returns:
        HTML.
    """
    parts = [
        _table(("option", "value"), [(name, str(value)) for name, value in asked.items()]),
        _results_table(results),
        *_remarks(results, growths),
        _plot("Latency by percentile", _draw_percentiles, results),
        _plot("Records per second", _draw_rates, results),
        _plot("Latency over time: median, and the longest of each interval", _draw_times, results),
        f'<p class="small">{html.escape(facts_line(machine_facts()))}</p>',
    ]
    return _PAGE.format(title=html.escape(title), body="\n".join(parts))


def _results_table(results: Sequence[PerfResult]) -> str:
    heads = (
        *("client", "records", "records/s", "MB/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms"),
        *("CPU us/record", "MiB", "failed"),
    )
    return _table(heads, [tuple(_result_cells(result)) for result in results])


def _result_cells(result: PerfResult) -> Iterator[str]:
    latencies, elapsed_s = result.steady.latencies, result.whole.elapsed_s or 1.0
    yield result.client
    yield f"{result.sent_count:,}"
    yield f"{result.whole.rate:,.0f}"
    yield f"{result.sent_bytes / elapsed_s / MIB:.2f}"
    for percent in (50.0, 99.0, 99.9):
        yield f"{latencies.percentile_ms(percent):.2f}"
    yield f"{latencies.max_ms:.2f}"
    yield f"{result.cpu_s * US_PER_S / max(result.sent_count, 1):.2f}"
    yield "" if result.peak_bytes is None else f"{result.peak_bytes / MIB:.0f}"
    yield f"{result.errors.total():,}"


def _remarks(results: Sequence[PerfResult], growths: Sequence[int | None]) -> Iterator[str]:
    for result, growth in zip(results, growths, strict=True):
        lines = [] if growth is None else [growth_text(result, growth)]
        lines += [f"{count} × {text}" for text, count in result.errors.most_common()]
        for line in lines:
            is_bad = line[0].isdecimal() or "MISSING" in line
            kind = ' class="bad"' if is_bad else ""
            yield f"<p{kind}>{html.escape(result.client)}: {html.escape(line)}</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>\n" for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _plot(
    title: str, draw: Callable[[Axes, Sequence[PerfResult]], None], results: Sequence[PerfResult]
) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_FIGURE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
        draw(axes, results)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
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
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    shown = (0.0, 90.0, 99.0, 99.9, 99.99)
    axes.set_xscale("log")
    axes.set_xticks([_place(percent) for percent in shown], [f"{each:g} %" for each in shown])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("share of the records that took at most so long")
    axes.set_ylabel("ms")


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
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("seconds")


def _draw_times(axes: Axes, results: Sequence[PerfResult]) -> None:
    for index, result in enumerate(results):
        seconds = [interval.at_s for interval in result.intervals]
        medians = [each.latencies.percentile_ms(50) for each in result.intervals]
        longest = [each.latencies.max_ms for each in result.intervals]
        label = _label(results, index)
        axes.plot(seconds, medians, color=_colour(index), marker="o", markersize=3, label=label)
        axes.plot(seconds, longest, color=_colour(index), linestyle=":")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("seconds")
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
