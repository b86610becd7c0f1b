"""The picture of a rebalance: time to the right, a line for each member, the group's state above.

Everything is read from a run of the coordinator (`docs/pictures/group_run.py`).
"""

from docs.pictures.drawing import DEEP, FAINT, HAIR, LEAF, MIST, ROSE, SAND, SKY, Drawing
from docs.pictures.group_run import SESSION_MS, Call, Run
from kprod.broker.group.state import GroupState

_LEFT, _WIDTH = 96.0, 1_220
_STATES_Y, _LANES = 96.0, {"A": 200.0, "B": 300.0}
_COLOURS = {
    GroupState.EMPTY: MIST,
    GroupState.PREPARING: SAND,
    GroupState.COMPLETING: SKY,
    GroupState.STABLE: LEAF,
}
_SHORT = {GroupState.PREPARING: "Preparing", GroupState.COMPLETING: "Completing"}
_LEAST_WIDTH = 60.0


def draw() -> Drawing:
    """Draw it."""
    run = Run()
    scale = (_WIDTH - _LEFT - 24) / run.end_ms
    drawing = Drawing(_WIDTH, 392, "A worked rebalance: two members of a group and its coordinator")
    drawing.words((24, 36), "A worked rebalance", size=18, look="bold")
    text = "a box is a request, from its arrival to its response; those that wait are parked"
    drawing.words((24, 58), text, look="faint")
    _draw_states(drawing, run, scale)
    for name, y in _LANES.items():
        drawing.words((24, y + 16), f"member {name}", look="bold")
        drawing.line([(_LEFT, y + 38), (_WIDTH - 24, y + 38)], colour=HAIR)
    for call in run.calls:
        _draw_call(drawing, call, scale)
    _draw_end_of_session(drawing, run, scale)
    for second in range(run.end_ms // 1_000 + 1):
        x = _LEFT + second * 1_000 * scale
        drawing.line([(x, 352), (x, 357)], colour=FAINT)
        if second % 2 == 0:
            drawing.words((x, 372), f"{second} s", size=11, anchor="middle", look="faint")
    return drawing


def _draw_states(drawing: Drawing, run: Run, scale: float) -> None:
    drawing.words((24, _STATES_Y + 17), "group", look="bold")
    ends = [*(it.at_ms for it in run.moves[1:]), run.end_ms]
    for move, end_ms in zip(run.moves, ends, strict=True):
        if end_ms == move.at_ms:
            continue  # it moved on at once
        x, width = _LEFT + move.at_ms * scale, (end_ms - move.at_ms) * scale
        drawing.box((x, _STATES_Y), (width, 26), fill=_COLOURS[move.after], edge=FAINT)
        name = _SHORT.get(move.after, move.after.value)
        drawing.words((x + width / 2, _STATES_Y + 17), name, size=11, anchor="middle")
        text = f"generation {move.generation}" if move.after is GroupState.STABLE else ""
        drawing.words((x + 2, _STATES_Y + 42), text, size=11, look="faint")


def _draw_call(drawing: Drawing, call: Call, scale: float) -> None:
    y = _LANES[call.member]
    x = _LEFT + call.sent_ms * scale
    width = max((call.answered_ms - call.sent_ms) * scale, _LEAST_WIDTH)
    fill = ROSE if call.result == "rebalance" else SAND if call.answered_ms > call.sent_ms else MIST
    drawing.box((x, y), (width, 34), fill=fill, edge=FAINT)
    drawing.words((x + width / 2, y + 14), call.name, size=10.5, anchor="middle")
    drawing.words((x + width / 2, y + 28), call.result, size=10, anchor="middle", look="bold")


def _draw_end_of_session(drawing: Drawing, run: Run, scale: float) -> None:
    last = max(call.answered_ms for call in run.calls if call.member == "B")
    ends = [it for it in run.moves if it.at_ms > last and it.after is GroupState.PREPARING]
    y, x = _LANES["B"] + 17, _LEFT + last * scale + _LEAST_WIDTH
    end = _LEFT + ends[0].at_ms * scale
    drawing.line([(x, y), (end, y)], colour=DEEP, look="dashed arrow")
    text = f"B sends nothing more; its session ends after {SESSION_MS:,} ms"
    drawing.words((x + 6, y - 6), text, size=11)
