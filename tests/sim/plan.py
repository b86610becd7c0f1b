"""A plan: everything that will happen in one run, as data, made from a seed before the run.

A run is a function of its plan alone, so a plan can be stored, replayed, and made smaller by taking
entries out.

Source: Groce et al., "Swarm Testing" (2012), for a random subset of the faults in each run.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from tests.sim import shapes
from tests.sim.crew_plan import give_crew
from tests.sim.draw import Draw
from tests.sim.group_plan import GROUP_FAULTS, give_groups
from tests.sim.reader_plan import READER_FAULTS, give_reader

Entry = dict[str, Any]
"""One operation or fault: `at_ms`, `kind`, and what the kind needs."""

TOPICS = ("orders", "clicks", "audit")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_RATES = (0.02, 0.1, 0.3, 1.0)
_SHARE_OF_KINDS = 0.4
_RECORDS = 200
"""That the application sends in all; the last operation of a producer may exceed its share."""
_SHARE_WITHOUT_FAULTS = 0.1
_MODES = ("engine",) * 10 + ("threads",) * 7 + ("tasks",) * 3
_DEADLY = frozenset({"memory_error", "error_fatal"})
"""Faults that may end a producer: with too many of them nothing else would happen to it."""
_DISK_FAULTS = {"checkpoint": 4, "crash": 4, "restart": 2}
"""Faults of brokers with a disk, and how many of them a plan has at most."""
_SHARE_WITH_DISKS = 0.1
_NEVER = (1 << 63) - 1
_LISTS = frozenset({"operations", "faults", "producers", "rests", "readings", "acts", "shifts"})
_DRAWN_APART = frozenset({*_DISK_FAULTS, *READER_FAULTS, *GROUP_FAULTS})
"""Faults that only plans with a disk, with a consumer or with groups have."""
_HABITS = ("raise", "send", "resend", "resend", "flush", "logs", "sleep", "purge", "close")


@dataclass(slots=True)
class Plan:
    """One run.

    Attributes:
        seed: Seed of the run's own random choices (orders, slices).
        brokers: How many.
        topics: Partitions by name.
        producers: Settings of each.
        operations: The application's operations, in order of time.
        faults: The faults, in order of time.
        load_ms: How long both last.
        mode: "engine": the application acts while the senders sleep; "threads": its calls are
            threads of their own, and may wait; "tasks": they are tasks of event loops.
        raising_log: A handler of the log raises at each line.
        rests: Times in which everything is well and the application does nothing new.
        ending: "calm": everything is healed; "partial": one broker stays dead.
        disk: Settings of brokers whose logs are on a disk; empty for logs in memory.
        reader: Settings of a consumer; empty for none.
        readings: The operations of the consumer's application, in order of time.
        groups: Settings of consumer groups; empty for none.
        acts: The acts of the groups' members, in order of time.
        crew: Settings of a group of consumers; empty for none.
        shifts: The acts of the crew and its writers, in order of time.
    """

    seed: int
    brokers: int
    topics: dict[str, int]
    producers: list[dict[str, Any]]
    operations: list[Entry] = field(default_factory=list)
    faults: list[Entry] = field(default_factory=list)
    load_ms: int = 1_000
    ending: str = "calm"
    mode: str = "engine"
    raising_log: bool = False
    rests: list[Entry] = field(default_factory=list)
    disk: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    readings: list[Entry] = field(default_factory=list)
    groups: dict[str, Any] = field(default_factory=dict)
    acts: list[Entry] = field(default_factory=list)
    crew: dict[str, Any] = field(default_factory=dict)
    shifts: list[Entry] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the plan as text, one entry to a line."""
        lines: list[str] = []
        for name, value in dataclasses.asdict(self).items():
            text = json.dumps(value)
            if name in _LISTS and value:
                entries = ",\n  ".join(json.dumps(entry) for entry in value)
                text = f"[\n  {entries}\n ]"
            lines.append(f' "{name}": {text}')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def make_plan(seed: int, fault_kinds: Sequence[str], always: Sequence[str] = ()) -> Plan:
    """Make the plan of a seed.

    Args:
        seed: Any whole number.
        fault_kinds: All that there are; the plan has some of them.
        always: The operations that every plan has, and often.

    Returns:
        The same plan for the same arguments, on every machine.
    """
    draw = Draw(seed, "settings")
    brokers = draw.between(1, 4)
    topics = {name: draw.between(1, 4) for name in TOPICS[: draw.between(1, len(TOPICS))]}
    count = draw.one_of((1, 1, 1, 2, 3))
    plan = Plan(
        seed=seed,
        brokers=brokers,
        topics=topics,
        producers=[_settings(Draw(seed, f"producer/{number}")) for number in range(count)],
        load_ms=draw.one_of((500, 2_000, 5_000, 10_000)),
    )
    plan.mode = draw.one_of(_MODES)
    plan.raising_log = draw.chance(0.05)
    if plan.mode != "engine":
        for settings in plan.producers:
            settings["max_block_ms"] = draw.one_of((0, 50, 2_000))
    is_direct = plan.mode == "threads" and draw.chance(0.3)
    if is_direct:  # one caller that waits for each record
        shapes.set_all(plan, linger_ms=0, compression_type="none")
    if brokers > 1 and draw.chance(0.2):
        plan.ending = "partial"
        shapes.set_all(plan, buffer_memory=32 << 20)  # else records for the dead broker may fill it
    may_be_short = plan.mode == "threads" and plan.ending == "calm" and not is_direct
    is_short = may_be_short and draw.chance(0.1)
    if is_short:
        shapes.be_short(plan)
    for number in range(count):
        plan.operations += _operations(plan, number, is_direct=is_direct)
    plan.operations.sort(key=itemgetter("at_ms"))
    if is_short:
        shapes.wait_for_memory(plan)
        return plan
    plan.faults = _faults(plan, fault_kinds, always)
    if not is_direct:
        _shape(plan, draw, keeps_faults=bool(always))
    _give_disk(plan, fault_kinds)
    give_reader(plan, fault_kinds)
    give_groups(plan, fault_kinds)
    give_crew(plan, fault_kinds)
    # A consumer fetches all the time, and members send heartbeats.
    if draw.chance(0.5) and not plan.reader and not plan.groups and not plan.crew:
        shapes.rest(plan)
    return plan


def _shape(plan: Plan, draw: Draw, *, keeps_faults: bool) -> None:
    """Give some plans a shape in which rare states come about."""
    if plan.mode != "engine" and draw.chance(0.15):
        shapes.crowd(plan)
    elif draw.chance(0.1) and not keeps_faults:
        shapes.reject_the_oldest(plan)
    elif not keeps_faults:
        shapes.shape_rarely(plan)


def _settings(draw: Draw) -> dict[str, Any]:
    acks = draw.one_of(("all", "all", "all", "all", 1, 0))
    request_ms = draw.one_of((300, 1_000, 3_000))
    linger_ms = draw.one_of((0, 0, 0, 1, 5, 20, 50, 500))
    settings: dict[str, Any] = {
        "acks": acks,
        "enable_idempotence": acks == "all" and not draw.chance(0.1),
        "buffer_memory": draw.one_of((32 << 10, 64 << 10, 256 << 10, 32 << 20)),
        "batch_size": draw.one_of((1, 200, 1_000, 16_000)),
        "linger_ms": linger_ms,
        "request_timeout_ms": request_ms,
        "delivery_timeout_ms": request_ms + linger_ms + draw.one_of((50, 1_000, 10_000, 27_000)),
        "max_in_flight_requests_per_connection": draw.between(1, 5),
        "compression_type": draw.one_of((*CODECS, "none", "none")),
        "retry_backoff_ms": draw.one_of((10, 100)),
        "reconnect_backoff_ms": draw.one_of((20, 50)),
        "on_buffer_full": draw.one_of(("block", "raise")),
    }
    if draw.chance(0.2):
        settings["retries"] = draw.between(1, 3)
    if draw.chance(0.1):
        settings["connections_max_idle_ms"] = 2_000
    settings["first_sequence"] = draw.chance(0.15)
    settings["first_epoch"] = draw.chance(0.15)
    settings["compression_threads"] = draw.one_of((1, 2, 3))
    return settings


def _operations(plan: Plan, producer: int, *, is_direct: bool) -> list[Entry]:
    draw = Draw(plan.seed, f"caller/{producer}")
    habits = draw.some_of(_HABITS, 0.2)
    size_max = draw.one_of((20, 200, 1_100, 4_000))
    pace_ms = draw.one_of((2, 10, 40, 150))
    callers = draw.between(1, 1 if is_direct and draw.chance(0.7) else 4)
    entries: list[Entry] = []
    at_ms = draw.between(0, 20)
    sent, sent_max = 0, _RECORDS // len(plan.producers)
    while at_ms < plan.load_ms and sent < sent_max:
        entry = _operation(draw, habits, size_max)
        if is_direct and entry["kind"] == "send" and draw.chance(0.8):
            entry |= {"kind": "ask", "count": min(entry["count"], 5)}
        entry |= {"at_ms": at_ms, "producer": producer, "caller": draw.below(callers)}
        entry["wait_ms"] = draw.one_of((0, 10, 500, 3_000))
        if entry["kind"].startswith(("send", "ask")):
            entry["topic"] = draw.one_of(sorted(plan.topics))
            beyond = draw.one_of((0, 0, 0, 0, 0, 0, 1, 2))  # a topic may have grown by then
            entry["partition"] = draw.between(-1, plan.topics[entry["topic"]] - 1 + beyond)
        sent += entry.get("count", 0)
        entries.append(entry)
        at_ms += draw.between(0, 2 * pace_ms)
    return entries


def _operation(draw: Draw, habits: Sequence[str], size_max: int) -> Entry:
    roll = draw.below(100)
    if roll < 80:
        return {
            "kind": "send",
            "count": draw.one_of((1, 1, 5, 30)),
            "size": draw.between(8, size_max) if not draw.chance(0.02) else 2_000_000,
            "key": draw.between(-1, 5),
            "observers": draw.between(0, 3),
            "habit": draw.one_of(habits) if habits and draw.chance(0.3) else "",
        }
    if roll < 86:
        kind = draw.one_of(("send_many", "send_many", "send_arrow"))
        return {"kind": kind, "count": draw.between(1, 20), "size": draw.between(8, size_max)}
    if roll < 99:
        kind = draw.one_of(("flush_soon", "flush", "flush", "purge", "result", "cancel"))
        return {"kind": kind, "choice": draw.below(1 << 16)}
    return {"kind": "close"}


def _faults(plan: Plan, kinds: Sequence[str], always: Sequence[str]) -> list[Entry]:
    draw = Draw(plan.seed, "faults")
    if draw.chance(_SHARE_WITHOUT_FAULTS) and not always:
        return []
    chosen = draw.some_of(sorted(set(kinds) - _DRAWN_APART), _SHARE_OF_KINDS)
    chosen += [kind for kind in always if kind not in chosen]
    tick_ms = draw.between(10, 600)
    faults: list[Entry] = []
    for kind in chosen:
        own = Draw(plan.seed, f"fault/{kind}")
        rate = _RATES[0] if kind in _DEADLY else own.one_of(_RATES)
        if kind in always:
            rate = max(rate, _RATES[2])
        for begin_ms in range(tick_ms, plan.load_ms, tick_ms):
            at_ms = min(begin_ms + own.below(tick_ms), plan.load_ms - 1)
            if own.chance(rate):
                faults.append(_fault(own, plan, kind, at_ms))
    faults.sort(key=itemgetter("at_ms"))
    return faults[: shapes.FAULTS_MAX]


def _fault(own: Draw, plan: Plan, kind: str, at_ms: int) -> Entry:
    return {
        "at_ms": at_ms,
        "kind": kind,
        "broker": own.below(plan.brokers),
        "topic": own.one_of(sorted(plan.topics)),
        "choice": own.below(1 << 16),
        "for_ms": own.one_of((5, 50, 300, 1_000, 3_000)),
    }


def _give_disk(plan: Plan, kinds: Sequence[str]) -> None:
    """Keep the logs of some plans on a disk, and let the power fail; other plans stay as they are.

    Followers keep up there, so that no leader cuts the log: it only grows.
    """
    draw = Draw(plan.seed, "disk")
    if not draw.chance(_SHARE_WITH_DISKS):
        return
    plan.disk = {
        "flush_messages": draw.one_of((1, 1, 3, _NEVER)),
        "segment_ms": draw.one_of((50, 500, 604_800_000)),
        "index_interval_bytes": draw.one_of((0, 200, 4_096)),
    }
    if draw.chance(0.3):
        plan.disk |= {"flush_scheduler_interval_ms": 100, "flush_ms": 0}
    plan.faults = [entry for entry in plan.faults if entry["kind"] != "lag"]
    # The power fails while there is something to lose.
    end_ms = min(max(entry["at_ms"] for entry in plan.operations) + 500, plan.load_ms)
    for kind in sorted(_DISK_FAULTS.keys() & set(kinds)):
        own = Draw(plan.seed, f"fault/{kind}")
        for _ in range(own.below(_DISK_FAULTS[kind] + 1)):
            plan.faults.append(_fault(own, plan, kind, own.below(end_ms)))
    plan.faults.sort(key=itemgetter("at_ms"))
