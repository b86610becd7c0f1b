"""Plans with consumer groups: settings, the members' acts, and faults.

All of it is drawn from streams of its own, so plans without groups stay as they were. A plan with
groups is short and ends calm, and has no disk and no consumer.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tests.sim.draw import Draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.sim.plan import Entry, Plan

SHARED = "shared"
"""The topic whose partitions the members share."""
GROUP_FAULTS = {
    "coordinator_lapse": 3,
    "coordinator_move": 4,
    "coordinator_stop": 3,
    "group_error": 5,
    "group_lost": 5,
    "group_lag": 5,
    "group_rebalance": 3,
    "group_expire": 3,
}
"""Faults and events of plans with groups, and how many of them a plan has at most."""
SLOTS = 4
"""Most clients of a group at one time, but for those that are replaced."""
LOAD_MS = 2_500
_SHARE = 0.05
_SHARE_OF_FAULTS = 0.4
_SHARE_WITHOUT_FAULTS = 0.25
_ACTS_MAX = 40
_ACTS = (
    *("commit",) * 8,
    *("fetch",) * 4,
    *("start",) * 4,
    *("stop",) * 3,
    *("replace",) * 2,
    *("stall",) * 2,
    "crash",
    "stale_commit",
    "remove",
    "change",
)


def give_groups(plan: "Plan", kinds: "Sequence[str]") -> None:
    """Let members form groups in some plans; other plans stay as they are."""
    draw = Draw(plan.seed, "groups")
    if not draw.chance(_SHARE) or plan.disk or plan.reader:
        return
    plan.ending = "calm"
    plan.load_ms = min(plan.load_ms, LOAD_MS)
    plan.operations = [it for it in plan.operations if it["at_ms"] < plan.load_ms]
    plan.faults = [it for it in plan.faults if it["at_ms"] < plan.load_ms]
    plan.groups = _settings(draw)
    plan.acts = _acts(plan)
    if Draw(plan.seed, "groups without faults").chance(_SHARE_WITHOUT_FAULTS):
        plan.faults = []
        return
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
                    "topic": SHARED,
                    "choice": own.below(1 << 16),
                    "for_ms": own.one_of((5, 50, 300)),
                }
            )
    plan.faults.sort(key=itemgetter("at_ms"))


def _settings(draw: Draw) -> dict[str, Any]:
    return {
        "names": ["billing", "audit"][: draw.one_of((1, 1, 2))],
        "partitions": draw.between(1, 4),
        "session_ms": draw.one_of((200, 400, 1_000)),
        "rebalance_ms": draw.one_of((300, 600)),
        "initial_ms": draw.one_of((0, 0, 40, 450)),
        "shards": draw.one_of((1, 2)),
        "write_ms": draw.one_of((50, 5_000)),
        "slots": [
            {"static": draw.chance(0.4), "level": draw.one_of(("low", "middle", "high", "high"))}
            for _ in range(SLOTS)
        ],
    }


def _acts(plan: "Plan") -> "list[Entry]":
    draw = Draw(plan.seed, "acts")
    pace_ms = draw.one_of((25, 60, 120))
    entries: list[Entry] = [
        {"at_ms": draw.below(60), "kind": "start", "group": group, "member": member}
        for group in range(len(plan.groups["names"]))
        for member in range(draw.between(1, SLOTS - 1))
    ]
    at_ms = draw.between(20, 150)
    while at_ms < plan.load_ms and len(entries) < _ACTS_MAX:
        entries.append(
            {
                "at_ms": at_ms,
                "kind": draw.one_of(_ACTS),
                "group": draw.below(len(plan.groups["names"])),
                "member": draw.below(SLOTS),
            }
        )
        at_ms += draw.between(0, 2 * pace_ms)
    for entry in entries:
        entry |= {"choice": draw.below(1 << 16), "for_ms": draw.one_of((30, 150, 500, 1_500))}
    entries.sort(key=itemgetter("at_ms"))
    return entries
