"""Draw what threads do over time: a band for each thread, a colour for each state.

Thread-safety: one thread, the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from report_plot import COLOURS, STYLE, save
from thread_states import Span, State

PANEL_INCHES = 1.7
WIDTH_INCHES = 11.0
BLUE, VERMILION, GREEN, PINK, SKY, *_ = COLOURS
COLOUR_OF = {
    State.RUNS_WITH_GIL: BLUE,
    State.WRITES: GREEN,
    State.WAITS_FOR_GIL: VERMILION,
    State.RUNS_WITHOUT_GIL: SKY,
    State.WAITS_FOR_CORE: PINK,
}
"""A thread that sleeps has no colour."""

OTHER_PROCESS = "#999999"
Panel = tuple[str, Sequence["Band"]]


@dataclass(frozen=True, slots=True)
class Band:
    """One thread's states; threads with the same name share a place.

    Attributes:
        name: Name beside the band.
        spans: All of a trace.
        is_python: Whether the GIL means anything to it.
    """

    name: str
    spans: Sequence[Span]
    is_python: bool = True


def draw_bands(title: str, panels: Sequence[Panel], window_s: float, path: Path) -> None:
    """Write the plot.

    Args:
        title: Title of the figure.
        panels: Heading and bands of each, at least one of each.
        window_s: How long from the middle of a trace to draw.
        path: Ends in png, svg or pdf.
    """
    with mpl.rc_context(STYLE):
        height = PANEL_INCHES * len(panels) + 1.1
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)
        for axes, (heading, bands) in zip(grid[:, 0], panels, strict=True):
            axes.set_title(heading)
            _draw(axes, bands, window_s)
        axes.set_xlabel("milliseconds")
        legend = [Patch(color=colour, label=state.value) for state, colour in COLOUR_OF.items()]
        legend.append(Patch(color=OTHER_PROCESS, label="broker's process has a core"))
        figure.legend(handles=legend, loc="outside lower center", ncols=3)
        save(figure, path)


def _draw(axes: Axes, bands: Sequence[Band], window_s: float) -> None:
    names = list(dict.fromkeys(band.name for band in bands))
    whole = bands[0].spans
    began_s = (whole[0].began_s + whole[-1].ended_s - window_s) / 2
    for band in bands:
        for state, colour in COLOUR_OF.items():
            pieces = [
                ((span.began_s - began_s) * 1e3, (span.ended_s - span.began_s) * 1e3)
                for span in band.spans
                if span.state is state
                and span.ended_s > began_s
                and span.began_s < began_s + window_s
            ]
            place = names.index(band.name) - 0.4, 0.8
            axes.broken_barh(pieces, place, color=colour if band.is_python else OTHER_PROCESS)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, window_s * 1e3)
    axes.tick_params(axis="y", length=0)
