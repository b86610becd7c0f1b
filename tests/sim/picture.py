"""A run as a picture: what the application, the client and each broker did, one row for each event.

As text, with a column for each; or as SVG, with an arrow for each frame.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docs.pictures.drawing import DEEP, FAINT, HAIR, ROSE, SAND, Drawing
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_request_header, decode_response_header
from tests.sim.link import Link
from tests.sim.oracle import Finding
from tests.sim.plan import Plan
from tests.sim.tap import Attempt, FrameStream, attempts_in
from tests.sim.world import World

ROWS_MAX = 200
_ROW = 21
_TOP = 96
_APPLICATION_X, _CLIENT_X, _BROKER_X, _BROKER_STEP = 150, 430, 700, 150
_TEXT_WIDTHS = (12, 30, 58)


class Row(NamedTuple):
    """One event.

    Attributes:
        at_ms: Virtual time.
        kind: "application", "request", "response", "link" or "fault".
        text: Description.
        place: The broker's, by port, from 0; −1 where there is none.
        client: Number of the client; −1 where there is none.
    """

    at_ms: float
    kind: str
    text: str
    place: int = -1
    client: int = -1


class PicturedWorld(World):
    """A world that keeps a row for each event.

    Attributes:
        rows: In order.
        findings_at: How many rows there were at each finding.
    """

    def __init__(self, plan: Plan) -> None:
        self.rows: list[Row] = []
        self._up: dict[int, FrameStream] = defaultdict(FrameStream)
        self._down: dict[int, FrameStream] = defaultdict(FrameStream)
        self._asked: dict[tuple[int, int], tuple[int, int]] = {}
        super().__init__(plan)

    def note(self, kind: bytes, data: bytes) -> None:
        """Keep what the application and the faults do; frames are kept whole."""
        super().note(kind, data)
        name = kind.decode()
        if name == "fault":
            self._add("fault", data.decode())
        elif name in {"sent", "rejected", "told", "closed"}:
            self._add("application", f"{name} {_outcome_text(data.decode())}")

    def connected(self, link: Link) -> None:
        """Keep a connection attempt."""
        super().connected(link)
        self._add("link", f"connects (link {link.number})", link)

    def shut(self, link: Link) -> None:
        """Keep the end of a link."""
        super().shut(link)
        self._add("link", f"closes (link {link.number})", link)

    def wrote(self, link: Link, data: bytes) -> None:
        """Keep each request that is written whole."""
        super().wrote(link, data)
        for frame in self._up[link.number].feed(data):
            header, at = decode_request_header(frame)
            self._asked[link.number, header.correlation_id] = header.api_key, header.api_version
            text = ApiKey(header.api_key).name
            if header.api_key == ApiKey.PRODUCE:
                body = request_codec(header.api_key, header.api_version).decode(frame[at:])
                text = " ".join(_batch_text(attempt) for attempt in attempts_in(body, link))
            self._add("request", text, link)

    def read(self, link: Link, data: bytes) -> None:
        """Keep each response that is read whole."""
        super().read(link, data)
        for frame in self._down[link.number].feed(data):
            asked = self._asked.get((link.number, int.from_bytes(frame[:4], "big")))
            if asked is None:
                self._add("response", "of no request", link)
                continue
            text = ApiKey(asked[0]).name
            if asked[0] == ApiKey.PRODUCE:
                _, at = decode_response_header(*asked, frame)
                body = response_codec(*asked).decode(frame[at:])
                text = " ".join(
                    f"[{part['index']}] code {part['error_code']}"
                    for topic in body["responses"]
                    for part in topic["partition_responses"]
                )
            self._add("response", text, link)

    def _add(self, kind: str, text: str, link: Link | None = None) -> None:
        place = -1 if link is None else link.port - min(self.network.listeners, default=0)
        client = -1 if link is None else link.client
        self.rows.append(Row(self.scheduler.now_ns / 1e6, kind, text, place, client))


def _batch_text(attempt: Attempt) -> str:
    _, epoch, sequence = attempt.identity
    return f"[{attempt.partition[1]}] e{epoch} s{sequence} ({attempt.record_count})"


def _outcome_text(text: str) -> str:
    """Shorten what an observer was told."""
    name, found, rest = text.partition("Outcome(")
    if not found:
        return text
    fields = dict(part.split("=", 1) for part in rest.rstrip(")").split(", "))
    error = fields["error"].strip("'")
    if error:
        return f"{name} {error}, {fields['persistence'].strip(chr(39)).lower()}"
    return f"{name} at {fields['offset']}"


def pictured(plan: Plan) -> tuple[list[Row], list[Finding]]:
    """Run a plan.

    Returns:
        Its last rows, with like ones of one instant in one, and the findings.
    """
    world = PicturedWorld(plan)
    verdict = world.run()
    return list(_merged(world.rows))[-ROWS_MAX:], verdict.findings


def _merged(rows: Sequence[Row]) -> Iterator[Row]:
    last: Row | None = None
    for row in rows:
        is_like = last is not None and (
            (last.at_ms, last.kind, last.place) == (row.at_ms, row.kind, row.place)
        )
        if last is not None and is_like and row.kind == "application" and len(last.text) < 40:
            last = last._replace(text=f"{last.text}; {row.text}")
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def as_text(rows: Sequence[Row]) -> str:
    """Return the rows in columns: the instant, the application, the wire, the faults."""
    widths = _TEXT_WIDTHS
    lines = [f"{'ms':>{widths[0]}}  {'application':{widths[1]}} {'wire':{widths[2]}} faults"]
    for row in rows:
        application = row.text if row.kind == "application" else ""
        fault = row.text if row.kind == "fault" else ""
        arrow = {"request": "→", "response": "←", "link": "·"}.get(row.kind)
        wire = "" if arrow is None else f"{row.client} {arrow} broker {row.place}: {row.text}"
        line = f"{row.at_ms:{widths[0]}.2f}  {application:{widths[1]}} {wire:{widths[2]}} {fault}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def as_drawing(rows: Sequence[Row], title: str) -> Drawing:
    """Draw the rows: a line down for the application, the client and each broker."""
    brokers = max((row.place for row in rows), default=0) + 1
    width = _BROKER_X + _BROKER_STEP * brokers + 60
    height = _TOP + _ROW * (len(rows) + 1)
    drawing = Drawing(width, height, title)
    drawing.words((24, 36), title, size=18, look="bold")
    lanes = [("application", _APPLICATION_X), ("client", _CLIENT_X)]
    lanes += [(f"broker {place}", _BROKER_X + _BROKER_STEP * place) for place in range(brokers)]
    for name, x in lanes:
        drawing.words((x, 72), name, anchor="middle", look="bold")
        drawing.line([(x, 82), (x, height - 14)], colour=HAIR)
    for index, row in enumerate(rows):
        _draw_row(drawing, row, _TOP + _ROW * (index + 0.7))
    return drawing


def _draw_row(drawing: Drawing, row: Row, y: float) -> None:
    drawing.words((16, y + 4), f"{row.at_ms:.1f}", size=10.5, look="faint mono")
    broker_x = _BROKER_X + _BROKER_STEP * row.place
    if row.kind == "application":
        drawing.words((_APPLICATION_X - 60, y + 4), row.text[:44], size=11.5)
    elif row.kind == "fault":
        drawing.box((_CLIENT_X + 12, y - 9), (12 + 7 * len(row.text), 18), fill=SAND, edge=FAINT)
        drawing.words((_CLIENT_X + 18, y + 4), row.text, size=11.5)
    elif row.kind == "link":
        drawing.dot((_CLIENT_X, y), 3)
        drawing.words((_CLIENT_X + 12, y + 4), f"{row.text}, broker {row.place}", size=11)
    else:
        is_request = row.kind == "request"
        ends = [(_CLIENT_X + 4, y), (broker_x - 4, y)]
        drawing.line(
            ends if is_request else ends[::-1], colour=DEEP if is_request else FAINT, look="arrow"
        )
        size = (6.6 * len(row.text) + 8, 15)
        drawing.box((_CLIENT_X + 26, y - 8), size, edge="none", fill="#ffffff")
        if not is_request and "code" in row.text and not row.text.endswith("code 0"):
            drawing.box((_CLIENT_X + 26, y - 8), size, edge="none", fill=ROSE)
        drawing.words((_CLIENT_X + 30, y + 4), row.text, size=11, look="mono")
