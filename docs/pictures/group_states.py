"""The picture of a group's states: the legal moves, and those of a real run with their order.

The moves are read from `MOVES`, the errors from `REJECTIONS`, and the order from the run of
`docs/pictures/group_run.py`.
"""

from docs.pictures.drawing import DEEP, FAINT, GROUND, HAIR, LEAF, MIST, SAND, SKY, Drawing, Point
from docs.pictures.group_run import Run
from kprod.broker.group.state import MOVES, REJECTIONS, GroupState
from kprod.protocol.error_table import ErrorCode

_SIZE: Point = (170.0, 44.0)
_PLACES: dict[GroupState, Point] = {
    GroupState.EMPTY: (120.0, 130.0),
    GroupState.PREPARING: (390.0, 130.0),
    GroupState.COMPLETING: (390.0, 320.0),
    GroupState.STABLE: (120.0, 320.0),
    GroupState.DEAD: (680.0, 225.0),
}
_COLOURS = {
    GroupState.EMPTY: MIST,
    GroupState.PREPARING: SAND,
    GroupState.COMPLETING: SKY,
    GroupState.STABLE: LEAF,
    GroupState.DEAD: GROUND,
}
_TABLE_Y = 410.0
_ASIDE = 9.0
"""How far the line of a move is beside that of the opposite one."""


def draw() -> Drawing:
    """Draw it."""
    drawing = Drawing(980, 640, "The states of a consumer group, and the moves between them")
    drawing.words((24, 36), "The states of a group", size=18, look="bold")
    text = "blue: the moves of the worked rebalance, numbered in their order"
    drawing.words((24, 58), text, look="faint")
    order: dict[tuple[GroupState, GroupState], list[int]] = {}
    for number, move in enumerate(Run().moves, 1):
        order.setdefault((move.before, move.after), []).append(number)
    for before, followers in MOVES.items():
        for after in sorted(followers, key=list(GroupState).index):
            _draw_move(drawing, before, after, order.get((before, after), []))
    for state, (x, y) in _PLACES.items():
        width, height = _SIZE
        corner = (x - width / 2, y - height / 2)
        drawing.box(corner, _SIZE, fill=_COLOURS[state], radius=8)
        drawing.words((x, y + 5), state.value, anchor="middle", look="bold")
    _draw_rejections(drawing)
    return drawing


def _draw_rejections(drawing: Drawing) -> None:
    """Draw the table of the errors that depend on the state alone."""
    columns = {state: 208.0 + 156 * index for index, state in enumerate(GroupState)}
    drawing.words((24, _TABLE_Y), "rejected", look="bold")
    for state, x in columns.items():
        drawing.words((x, _TABLE_Y), state.value, size=12, look="bold")
    drawing.line([(24, _TABLE_Y + 8), (956, _TABLE_Y + 8)], colour=HAIR)
    for row, (event, codes) in enumerate(REJECTIONS.items()):
        y = _TABLE_Y + 28 + 24 * row
        drawing.words((24, y), event.value, size=12)
        for state, x in columns.items():
            code = codes.get(state)
            text = "–" if code is None else ErrorCode(code).name.replace("_", " ").lower()
            drawing.words((x, y), text, size=10.5, look="faint" if code is None else "")


def _draw_move(drawing: Drawing, before: GroupState, after: GroupState, numbers: list[int]) -> None:
    (x1, y1), (x2, y2) = _PLACES[before], _PLACES[after]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    aside = _ASIDE if before in MOVES[after] else 0.0
    x1, x2, y1, y2 = x1 - dy * aside, x2 - dy * aside, y1 + dx * aside, y2 + dx * aside
    start, end = _edge((x1, y1), (dx, dy)), _edge((x2, y2), (-dx, -dy))
    colour = DEEP if numbers else FAINT
    drawing.line([start, end], colour=colour, width=1.8 if numbers else 1.0, look="arrow")
    if numbers:
        text = ", ".join(str(it) for it in numbers)
        at = ((start[0] + end[0]) / 2 - dy * 26, (start[1] + end[1]) / 2 + dx * 16 + 4)
        drawing.words(at, text, size=12, anchor="middle", look="bold")


def _edge(centre: Point, way: Point) -> Point:
    """Return the point at which a line from a box's middle leaves the box."""
    width, height = _SIZE
    reach = min(
        (width / 2 + 2) / abs(way[0]) if way[0] else 1e9,
        (height / 2 + 2) / abs(way[1]) if way[1] else 1e9,
    )
    return centre[0] + way[0] * reach, centre[1] + way[1] * reach
