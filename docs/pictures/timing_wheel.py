"""The picture of the timing wheel: a real one, with the deadlines that a new record makes.

The rings and the buckets that stand out are read from a `TimingWheel` that was given those
deadlines from the producer's own defaults.
"""

from typing import NamedTuple

from docs.pictures.drawing import HAIR, MIST, SKY, Drawing, Point, on_circle
from kprod._core.timer.wheel import TimingWheel
from kprod._core.timer.wheel_level import WheelLevel
from kprod.config import ProducerConfig

_CENTRE: Point = (262.0, 318.0)
_HUB = 54.0
_RING = 44.0


class Deadline(NamedTuple):
    """One task of the example."""

    name: str
    delay_ms: int
    colour: str


def draw() -> Drawing:
    """Draw it."""
    drawing = Drawing(980, 600, "A hierarchical timing wheel with the deadlines of a batch")
    drawing.words((24, 36), "The timing wheel", size=18, look="bold")
    text = (
        "every deadline of a producer; adding and cancelling cost the same however many there are"
    )
    drawing.words((24, 58), text, look="faint")
    config = ProducerConfig.parse({"bootstrap_servers": "localhost:9092"})
    deadlines = (
        Deadline("linger_ms", config.linger_ms, "#2b6cb0"),
        Deadline("retry_backoff_ms", config.retry_backoff_ms, "#2f855a"),
        Deadline("request_timeout_ms", config.request_timeout_ms, "#b7791f"),
        Deadline("delivery_timeout_ms", config.delivery_timeout_ms, "#c53030"),
    )
    wheel = TimingWheel(0)
    for deadline in deadlines:
        wheel.schedule(deadline.delay_ms, _nothing)
    levels = _levels(wheel)
    for index, level in enumerate(levels):
        _draw_ring(drawing, index, level)
    drawing.dot(_CENTRE, _HUB - 6, fill=MIST)
    drawing.words((_CENTRE[0], _CENTRE[1] - 2), "now", anchor="middle", look="bold")
    drawing.words(
        (_CENTRE[0], _CENTRE[1] + 16), "0 ms", size=12, anchor="middle", look="faint mono"
    )
    for index, deadline in enumerate(deadlines):
        _draw_deadline(drawing, deadline, levels, index)
    _draw_table(drawing, levels)
    return drawing


def _nothing() -> None:
    """A task that is never run."""


def _levels(wheel: TimingWheel) -> list[WheelLevel]:
    levels, level = [], wheel.lowest
    while True:
        levels.append(level)
        if level.overflow_wheel is None:
            return levels
        level = level.overflow_wheel


def _draw_ring(drawing: Drawing, index: int, level: WheelLevel) -> None:
    inner = _HUB + index * _RING
    turn = 360 / level.wheel_size
    for bucket in range(level.wheel_size):
        angles = (bucket * turn, (bucket + 1) * turn)
        drawing.sector(_CENTRE, (inner, inner + _RING - 5), angles, fill=SKY if index % 2 else MIST)
    at = (_CENTRE[0], _CENTRE[1] - inner - _RING / 2 + 7)
    drawing.words(at, f"{index + 1}", size=11, anchor="middle", look="faint")


def _draw_deadline(
    drawing: Drawing, deadline: Deadline, levels: list[WheelLevel], index: int
) -> None:
    """Mark the bucket that holds it, and name it."""
    ring = next(i for i, level in enumerate(levels) if deadline.delay_ms < level.interval_ms)
    level = levels[ring]
    bucket = deadline.delay_ms // level.tick_ms
    assert any(found == bucket for found, _, _ in level.occupied())  # noqa: S101 - it is there
    turn = 360 / level.wheel_size
    inner = _HUB + ring * _RING
    angles = (bucket * turn, (bucket + 1) * turn)
    drawing.sector(_CENTRE, (inner, inner + _RING - 5), angles, fill=deadline.colour)
    at = on_circle(_CENTRE, inner + (_RING - 5) / 2, (bucket + 0.5) * turn)
    drawing.words((at[0], at[1] + 5), f"{bucket}", size=12, anchor="middle", look="bold light")
    label: Point = (584, 110 + 30 * index)
    drawing.box((560, label[1] - 12), (15, 15), fill=deadline.colour, edge="none")
    drawing.words(label, deadline.name, look="mono")
    drawing.words((746, label[1]), f"in {deadline.delay_ms:,} ms", size=12, look="faint mono")
    text = f"ring {ring + 1}, bucket {bucket}"
    drawing.words((956, label[1]), text, size=12, anchor="end", look="faint")


def _draw_table(drawing: Drawing, levels: list[WheelLevel]) -> None:
    top = 272
    columns = (560, 640, 750, 860)
    for x, head in zip(columns, ("ring", "buckets", "one spans", "all span"), strict=True):
        drawing.words((x, top), head, size=12, look="faint")
    drawing.line([(560, top + 8), (956, top + 8)], colour=HAIR)
    for index, level in enumerate(levels):
        y = top + 30 + 24 * index
        drawing.words((560, y), f"{index + 1}", size=12.5)
        cells = (f"{level.wheel_size}", f"{level.tick_ms:,} ms", f"{level.interval_ms:,} ms")
        for x, cell in zip(columns[1:], cells, strict=True):
            drawing.words((x, y), cell, size=12.5, look="mono")
    notes = """
        A deadline goes into the innermost ring that reaches it.
        Rings further out are made when a deadline needs them.
        When time comes to a bucket of an outer ring, its tasks
        move inwards, at most once per ring, and fire from the
        innermost, to the millisecond.
        Only buckets that hold tasks are in the queue that says
        when to wake: time between them costs nothing.
        """
    drawing.lines((560, 428), notes, step=21)
