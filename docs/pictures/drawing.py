"""A sheet to draw on: boxes, lines and words, in one style, as SVG.

The sheet has a light ground of its own, so that a picture is readable on a dark page, too. Numbers
are written with one decimal: the same code gives the same bytes everywhere.

Thread-safety: one thread.
Source: SVG 1.1 for elements and attributes.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

INK: Final = "#1f2933"
FAINT: Final = "#7b8794"
HAIR: Final = "#cbd2d9"
GROUND: Final = "#ffffff"
SKY: Final = "#d9e8f7"
LEAF: Final = "#d8f0e0"
SAND: Final = "#fbeccb"
ROSE: Final = "#f8d9d6"
MIST: Final = "#eef1f4"
DEEP: Final = "#2b6cb0"

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"

Point = tuple[float, float]


class Drawing:
    """A sheet of a fixed size; later shapes lie above.

    Args:
        width: Pixels.
        height: Pixels.
        title: Text alternative for readers that cannot see the picture.
    """

    __slots__ = ("_height", "_parts", "_title", "_width")

    def __init__(self, width: int, height: int, title: str) -> None:
        self._width = width
        self._height = height
        self._title = title
        self._parts: list[str] = []

    def box(
        self, corner: Point, size: Point, *, fill: str = GROUND, edge: str = INK, radius: float = 3
    ) -> None:
        """Draw a rectangle.

        Args:
            corner: Upper left.
            size: Width and height.
            fill: Its colour.
            edge: Its border's colour; "none" for no border.
            radius: Radius of the rounded corners.
        """
        self._parts.append(
            f'<rect x="{_n(corner[0])}" y="{_n(corner[1])}" width="{_n(size[0])}"'
            f' height="{_n(size[1])}" rx="{_n(radius)}" fill="{fill}" stroke="{edge}"/>'
        )

    def words(
        self,
        at: Point,
        text: str,
        *,
        size: float = 13,
        anchor: str = "start",
        look: str = "",
    ) -> None:
        """Write one line.

        Args:
            at: The base line's beginning, middle or end, as `anchor` says.
            text: Any characters.
            size: Font size in pixels.
            anchor: "start", "middle" or "end".
            look: Words of "mono", "bold", "faint" and "light" (for a dark ground).
        """
        wanted = set(look.split())
        colour = FAINT if "faint" in wanted else GROUND if "light" in wanted else INK
        attributes = f'x="{_n(at[0])}" y="{_n(at[1])}" font-size="{_n(size)}" fill="{colour}"'
        if anchor != "start":
            attributes += f' text-anchor="{anchor}"'
        if "mono" in wanted:
            attributes += f' font-family="{MONO}"'
        if "bold" in wanted:
            attributes += ' font-weight="600"'
        self._parts.append(f"<text {attributes}>{escape(text)}</text>")

    def line(
        self, points: Sequence[Point], *, colour: str = INK, width: float = 1.2, look: str = ""
    ) -> None:
        """Draw a line through points.

        Args:
            points: At least two.
            colour: Colour of the line.
            width: Pixels.
            look: Words of "arrow" (at its end) and "dashed".
        """
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        attributes = f'points="{path}" fill="none" stroke="{colour}" stroke-width="{_n(width)}"'
        if "dashed" in look:
            attributes += ' stroke-dasharray="5 4"'
        self._parts.append(f"<polyline {attributes}/>")
        if "arrow" in look:
            self._parts.append(_head(points[-2], points[-1], colour))

    def sector(self, centre: Point, radii: Point, angles: Point, *, fill: str) -> None:
        """Draw a piece of a ring.

        Args:
            centre: Centre of the ring.
            radii: Inner and outer.
            angles: From and to, in degrees clockwise from the top; less than half a turn apart.
            fill: Its colour.
        """
        inner, outer = radii
        a, b = (on_circle(centre, outer, angle) for angle in angles)
        c, d = (on_circle(centre, inner, angle) for angle in reversed(angles))
        self._parts.append(
            f'<path d="M {_p(a)} A {_n(outer)} {_n(outer)} 0 0 1 {_p(b)} L {_p(c)}'
            f' A {_n(inner)} {_n(inner)} 0 0 0 {_p(d)} Z" fill="{fill}" stroke="{HAIR}"/>'
        )

    def dot(self, at: Point, radius: float, *, fill: str = INK) -> None:
        """Draw a filled circle.

        Args:
            at: Its centre.
            radius: Pixels.
            fill: Its colour.
        """
        self._parts.append(
            f'<circle cx="{_n(at[0])}" cy="{_n(at[1])}" r="{_n(radius)}" fill="{fill}"/>'
        )

    def lines(self, at: Point, text: str, *, size: float = 12.5, step: float = 22) -> None:
        """Write lines below each other.

        Args:
            at: The first base line's beginning.
            text: A line each; blanks around a line do not count.
            size: Font size in pixels.
            step: From one base line to the next, pixels.
        """
        for index, line in enumerate(text.strip().splitlines()):
            self.words((at[0], at[1] + step * index), line.strip(), size=size)

    def svg(self) -> str:
        """Return the picture's file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {self._height}"'
            f' width="{self._width}" height="{self._height}" font-family="{FONT}" role="img">'
        )
        ground = (
            f'<rect width="{self._width}" height="{self._height}" rx="8" fill="{GROUND}"'
            f' stroke="{HAIR}"/>'
        )
        title = f"<title>{escape(self._title)}</title>"
        return "\n".join([head, title, ground, *self._parts, "</svg>"]) + "\n"


def on_circle(centre: Point, radius: float, angle: float) -> Point:
    """Return the point of a circle at an angle, in degrees clockwise from the top."""
    turn = math.radians(angle)
    return centre[0] + radius * math.sin(turn), centre[1] - radius * math.cos(turn)


def _head(before: Point, tip: Point, colour: str) -> str:
    """An arrow's head."""
    turn = math.atan2(tip[1] - before[1], tip[0] - before[0])
    sides = [
        (tip[0] - 9 * math.cos(turn + side), tip[1] - 9 * math.sin(turn + side))
        for side in (0.42, -0.42)
    ]
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in [tip, *sides])
    return f'<polygon points="{points}" fill="{colour}"/>'


def _n(number: float) -> str:
    """One decimal at most, and never minus nothing."""
    return f"{round(number, 1) + 0.0:.1f}".removesuffix(".0")


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"
