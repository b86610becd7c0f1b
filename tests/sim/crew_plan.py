"""Plans with a crew: consumers of one group, their applications' acts, and faults.

All of it is drawn from streams of its own, so plans without a crew stay as they were. A plan with a
crew is short and ends calm, its applications are threads, and it has no disk, no consumer besides
and no other group.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tests.sim.draw import Draw
from tests.sim.group_plan import GROUP_FAULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.sim.plan import Entry, Plan

WORK, MORE = "work", "work-more"
"""The topics that the crew reads; all subscribe to the first."""
SLOTS = 4
"""Most consumers at one time, but for those that are replaced."""
LOAD_MS = 3_000
_SHARE = 0.1
_SHARE_OF_FAULTS = 0.4
_SHARE_THAT_RETURNS = 0.3
_ACTS_MAX = 30
_WRITES_MAX = 120
_ACTS = (
    *("start",) * 5,
    *("leave",) * 3,
    *("crash",) * 2,
    *("stall",) * 3,
    *("freeze",) * 2,
    *("replace",) * 2,
    "topics",
    "rebalance",
    "grow",
    "beside",
)
_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky")


def may_have_crew(seed: int) -> bool:
    """Whether the plan of a seed has a crew, unless it has a disk, a consumer or groups."""
    return Draw(seed, "crew").chance(_SHARE)


def give_crew(plan: "Plan", kinds: "Sequence[str]") -> None:
    """Let consumers share topics as a group in some plans; other plans stay as they are."""
    draw = Draw(plan.seed, "crew")
    if not draw.chance(_SHARE) or plan.disk or plan.reader or plan.groups:
        return
    plan.ending = "calm"
    plan.load_ms = min(plan.load_ms, LOAD_MS)
    plan.operations = [it for it in plan.operations if it["at_ms"] < plan.load_ms]
    plan.faults = [it for it in plan.faults if it["at_ms"] < plan.load_ms]
    if plan.mode == "engine":
        plan.mode = "threads"
        for settings in plan.producers:
            settings["max_block_ms"] = draw.one_of((0, 50, 2_000))
    plan.crew = _settings(draw)
    plan.shifts = _acts(plan)
    for kind in sorted(GROUP_FAULTS.keys() & set(kinds)):
        own = Draw(plan.seed, f"fault/{kind}")
        if not own.chance(_SHARE_OF_FAULTS):
            continue
        for _ in range(own.between(1, GROUP_FAULTS[kind])):
            plan.faults.append(
                {
                    "at_ms": own.below(plan.load_ms),
                    "kind": kind,
                    "broker": own.below(plan.brokers),
                    "topic": WORK,
                    "choice": own.below(1 << 16),
                    "for_ms": own.one_of((5, 50, 300)),
                }
            )
    plan.faults.sort(key=itemgetter("at_ms"))
    _return_at_the_end(plan)


def _return_at_the_end(plan: "Plan") -> None:
    """Let partitions be added while a static member is away, which returns within its session.

    Nothing else happens from then on, so that nothing but the member itself may notice them.
    """
    if not Draw(plan.seed, "crew that returns").chance(_SHARE_THAT_RETURNS):
        return
    session_ms = plan.crew["session_ms"]
    away_ms = plan.load_ms - min(session_ms, plan.load_ms // 2)
    plan.crew["slots"][0]["static"] = True
    plan.faults = [it for it in plan.faults if it["at_ms"] < away_ms]
    acts = [it for it in plan.shifts if it["kind"] == "write" or it["at_ms"] < away_ms]
    last = {"slot": 0, "choice": 0, "for_ms": 0}
    plan.shifts = [
        {"at_ms": 0, "kind": "start", **last},
        *acts,
        {"at_ms": away_ms, "kind": "leave", **last},
        {"at_ms": away_ms + session_ms // 6, "kind": "grow", **last},
        {"at_ms": away_ms + session_ms // 3, "kind": "start", **last},
    ]
    plan.shifts.sort(key=itemgetter("at_ms"))


def _settings(draw: Draw) -> dict[str, Any]:
    session_ms = draw.one_of((300, 600, 1_200))
    return {
        "names": ["crew"],
        "partitions": draw.between(1, 5),
        "initial_ms": draw.one_of((0, 0, 0, 40)),
        "shards": draw.one_of((1, 2)),
        "write_ms": draw.one_of((50, 5_000)),
        "strategy": draw.one_of(_STRATEGIES),
        "session_ms": session_ms,
        "heartbeat_ms": session_ms // draw.one_of((3, 6)),
        "stall_ms": draw.one_of((500, 1_000)),
        "request_ms": draw.one_of((200, 600)),
        "api_ms": draw.one_of((800, 2_000)),
        "slots": [
            {
                "static": draw.chance(0.3),
                "topics": draw.one_of((1, 2, 2)),
                "commits": draw.one_of(("auto", "auto", "sync", "async", "listener")),
                "style": draw.one_of(("poll", "poll", "iterate")),
                "records": draw.one_of((1, 3, 50)),
                "work_ms": draw.one_of((0, 2, 20)),
                "wait_ms": draw.one_of((0, 5, 50)),
                "interval_ms": draw.one_of((20, 100, 400)),
            }
            for _ in range(SLOTS)
        ],
    }


def _acts(plan: "Plan") -> "list[Entry]":
    draw = Draw(plan.seed, "shifts")
    pace_ms = draw.one_of((40, 80, 160))
    entries: list[Entry] = [
        {"at_ms": draw.below(100), "kind": "start", "slot": slot}
        for slot in range(draw.between(1, SLOTS - 1))
    ]
    at_ms = draw.between(50, 300)
    while at_ms < plan.load_ms and len(entries) < _ACTS_MAX:
        entries.append({"at_ms": at_ms, "kind": draw.one_of(_ACTS), "slot": draw.below(SLOTS)})
        at_ms += draw.between(0, 2 * pace_ms)
    for entry in entries:
        entry |= {"choice": draw.below(1 << 16), "for_ms": draw.one_of((50, 300, 800, 1_500))}
    write_ms = draw.one_of((10, 30, 90))
    at_ms = draw.below(50)
    for _ in range(_WRITES_MAX):
        if at_ms >= plan.load_ms:
            break
        entries.append({"at_ms": at_ms, "kind": "write", "choice": draw.below(1 << 16)})
        at_ms += draw.between(1, 2 * write_ms)
    entries.sort(key=itemgetter("at_ms"))
    return entries
