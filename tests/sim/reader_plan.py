"""Plans with a consumer: its settings, its application's operations, and its faults.

All of it is drawn from streams of its own, so plans without a consumer stay as they were.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tests.sim.draw import Draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.sim.plan import Entry, Plan

STREAM = "stream"
"""A topic that only other writers append to: with transactions, cuts and deletions."""
READER_FAULTS = {
    "stream_write": 40,
    "stream_end": 12,
    "stream_cut": 3,
    "stream_delete": 3,
    "fetch_error": 6,
    "fetch_lost": 6,
    "fetch_throttle": 1,
    "offsets_error": 4,
    "corrupt": 3,
    "sessions_lost": 4,
    "reader_freeze": 3,
    "reader_wakes": 3,
}
"""Faults and events of plans with a consumer, and how many of them a plan has at most."""
_ALWAYS = ("stream_write", "stream_end")
_SHARE = 0.1
_OPERATIONS_MAX = 50
_PAUSES = ("pause", "pause", "resume", "resume")
_QUESTIONS = ("position", "offsets_for_times", "ends", "partitions_for", "lag", "metrics")
_MOVES = ("seek", "seek", "seek_to_beginning", "seek_to_end", "assign", "subscribe")
_SEEKS = frozenset({"seek_to_beginning", "seek_to_end"})
_SHARE_OF_HURRY = 0.2
_SHARE_OF_FAULTS = 0.5


def give_reader(plan: "Plan", kinds: "Sequence[str]") -> None:
    """Let a consumer read what the producers of some plans send; other plans stay as they are."""
    draw = Draw(plan.seed, "reader")
    if not draw.chance(_SHARE):
        return
    plan.reader = _settings(draw)
    if not plan.disk:  # whose machine knows the topics of the producers only
        plan.reader["stream"] = draw.between(1, 3)
    plan.readings = _readings(plan)
    _hurry(plan)
    end_ms = _active_ms(plan)
    for kind in sorted(READER_FAULTS.keys() & set(kinds)):
        own = Draw(plan.seed, f"fault/{kind}")
        if kind not in _ALWAYS and not own.chance(_SHARE_OF_FAULTS):
            continue
        for _ in range(own.between(1, READER_FAULTS[kind])):
            plan.faults.append(
                {
                    "at_ms": own.below(end_ms),
                    "kind": kind,
                    "broker": own.below(plan.brokers),
                    "topic": STREAM,
                    "choice": own.below(1 << 16),
                    "for_ms": own.one_of((5, 50, 300, 1_000)),
                }
            )
    plan.faults.sort(key=itemgetter("at_ms"))


def _hurry(plan: "Plan") -> None:
    """Let an assignment follow some seeks at once, so that the I/O thread learns of both together.

    A partition that is given up so, while the cluster is asked for its offset, has no offset.
    """
    draw = Draw(plan.seed, "hurry")
    for entry in [it for it in plan.readings if it["kind"] in _SEEKS]:
        if draw.chance(_SHARE_OF_HURRY):
            twice = (entry | {"choice": draw.below(1 << 16)}, entry | {"kind": "assign"})
            plan.readings += twice
    plan.readings.sort(key=itemgetter("at_ms"))


def _active_ms(plan: "Plan") -> int:
    """Return when the producers have sent what they send, so that a reader meets their faults."""
    last_ms = max((entry["at_ms"] for entry in plan.operations), default=0)
    return min(max(last_ms + 200, 500), plan.load_ms)


def _settings(draw: Draw) -> dict[str, Any]:
    request_ms = draw.one_of((1_000, 3_000))
    part_bytes = draw.one_of((1, 600, 5_000, 1 << 20))
    return {
        "begin": draw.one_of(("assign", "assign", "subscribe")),
        "auto_offset_reset": draw.one_of(
            ("earliest",) * 5 + ("latest", "none", "by_duration:PT1S")
        ),
        "isolation_level": draw.one_of(("read_uncommitted", "read_committed")),
        "fetch_buffer_memory": draw.one_of((64 << 10, 64 << 10, 64 << 20)),
        "max_partition_fetch_bytes": part_bytes,
        "fetch_max_bytes": draw.one_of((1_000, 20_000, 50 << 20)),
        # Below the request timeout: other requests wait behind a fetch.
        "fetch_max_wait_ms": draw.one_of((100, request_ms // 2, request_ms // 2)),
        "fetch_min_bytes": min(draw.one_of((1, 1, 1, 2_000)), part_bytes),
        "request_timeout_ms": request_ms,
        "max_poll_records": draw.one_of((1, 7, 500)),
        "retry_backoff_ms": draw.one_of((50, 100)),
        "reconnect_backoff_ms": draw.one_of((20, 50)),
        "metadata_max_age_ms": draw.one_of((1_000, 300_000)),
        "value_type": draw.one_of(("bytes", "bytes", "memoryview")),
        "deserializer": draw.chance(0.25),
        "interceptor": draw.one_of(("",) * 6 + ("plain", "raises", "re-enters", "closes")),
    }


def _readings(plan: "Plan") -> "list[Entry]":
    draw = Draw(plan.seed, "readings")
    pace_ms = draw.one_of((10, 40, 150))
    style = draw.one_of(("poll", "poll", "iterate", "poll_arrow"))
    entries: list[Entry] = []
    at_ms = draw.between(0, 50)
    while at_ms < plan.load_ms and len(entries) < _OPERATIONS_MAX:
        roll = draw.below(100)
        if roll < 72:
            kind = style if draw.chance(0.8) else draw.one_of(("poll", "iterate", "poll_arrow"))
        elif roll < 80:
            kind = draw.one_of(_MOVES)
        elif roll < 88:
            kind = draw.one_of(_PAUSES)
        elif roll < 97:
            kind = draw.one_of(_QUESTIONS)
        else:
            kind = draw.one_of(("wakeup", "close"))
        entries.append(
            {
                "at_ms": at_ms,
                "kind": kind,
                "count": draw.one_of((1, 3, 50, 1_000)),
                "choice": draw.below(1 << 16),
                "wait_ms": draw.one_of((0, 20, 200, 1_000)),
                "other": draw.chance(0.3),
            }
        )
        at_ms += draw.between(0, 2 * pace_ms)
    return entries
