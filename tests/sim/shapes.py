"""Shapes of plans: combinations of events for a rare state, which draws alone hardly give.

Each function changes a plan that was drawn, by the plan's own seed.
"""

from operator import itemgetter
from typing import TYPE_CHECKING

from tests.sim.draw import Draw

if TYPE_CHECKING:
    from tests.sim.plan import Plan

FAULTS_MAX = 250
"""Most faults of a plan."""
PARTITIONS_MAX = 6
"""Most partitions of a topic that grows."""
_SHORT_OF_MEMORY = {
    "linger_ms": 500,
    "buffer_memory": 32 << 10,
    "batch_size": 16_000,
    "compression_type": "none",
    "on_buffer_full": "block",
    "max_block_ms": 2_000,
    "delivery_timeout_ms": 30_000,
}
"""Settings with which callers queue for memory that others' lingering batches hold."""
_LARGE_BYTES = 12_000
_CALLERS_SHORT = 7
_ROUND = ((0, "send"), (6, "send"), (9, "flush"), (12, "send"))
"""Milliseconds from the beginning of a round, and what its callers do then."""
_CROWDS_MAX = 25
"""Rounds of a plan."""
_HALF_PACE_MS = 2_500
_HALF = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 1_050,
    "linger_ms": 0,
    "batch_size": 16_000,
    "buffer_memory": 32 << 20,
    "compression_type": "none",
}
"""Settings with which a request that is written late outlives its batches' deadlines."""
_SLEEP_PACE_MS = 4_000
_SLEEPERS = 4
_LEARN_PACE_MS = 2_000
_LEARN = {
    "acks": "all",
    "enable_idempotence": True,
    "request_timeout_ms": 3_000,
    "delivery_timeout_ms": 30_000,
    "max_block_ms": 2_000,
    "linger_ms": 0,
    "batch_size": 16_000,
    "buffer_memory": 32 << 20,
    "max_in_flight_requests_per_connection": 5,
    "on_buffer_full": "block",
}
"""Settings with which responses may be a second late, and calls wait for them."""
_LATE_PRODUCE, _LATE_METADATA = 64, 66
"""Requests that `late_response` handles at once, and whose responses it delays."""
_RARE_PERCENT = 5
_RESTS_MAX = 4
REST_MS = 15_000
"""Longer than the time in which everything that is open must be settled, whatever the settings."""


def set_all(plan: "Plan", **settings: object) -> None:
    """Give every producer the same settings."""
    for each in plan.producers:
        each.update(settings)


def be_short(plan: "Plan") -> None:
    """Give the producers little memory, and lingering batches that hold it."""
    set_all(plan, **_SHORT_OF_MEMORY)


def wait_for_memory(plan: "Plan") -> None:
    """Let more callers send at once than there are chunks of memory; one record fills a chunk."""
    sends = [entry for entry in plan.operations if entry["kind"] == "send"]
    plan.operations = [
        entry
        | {"caller": place % _CALLERS_SHORT, "at_ms": entry["at_ms"] // 300 * 300}
        | {"size": _LARGE_BYTES, "count": 1, "habit": ""}
        for place, entry in enumerate(sends)
    ]


def crowd(plan: "Plan") -> None:
    """Let callers send into one batch and flush it, while the batch before it is in flight.

    Then the broker finds that batch too large, and rejects a part of it.
    """
    draw = Draw(plan.seed, "crowd")
    topic = next(iter(plan.topics))
    for settings in plan.producers:
        settings |= {"batch_size": 16_000, "linger_ms": draw.one_of((0, 5, 500))}
        settings |= {"max_in_flight_requests_per_connection": draw.one_of((1, 1, 1, 2))}
        settings |= {"max_block_ms": 2_000, "buffer_memory": 32 << 20}
        settings["delivery_timeout_ms"] = settings["request_timeout_ms"] + 10_500
    pace_ms = draw.one_of((100, 250))
    place = {"broker": 0, "topic": topic}
    plan.operations, plan.faults = [], plan.faults if draw.chance(0.5) else []
    for at_ms in range(20, plan.load_ms - 30, pace_ms)[:_CROWDS_MAX]:
        number = draw.below(len(plan.producers))
        # The first is in flight for 50 ms; the others share a batch, which is flushed in between.
        for caller, (offset_ms, kind) in enumerate(_ROUND):
            plan.operations.append(
                {"at_ms": at_ms + offset_ms + draw.between(0, 2), "kind": kind}
                | {"producer": number, "caller": caller, "topic": topic, "partition": 0}
                | {"count": draw.between(1, 5), "size": draw.between(8, 200), "key": -1}
                | {"observers": draw.between(0, 3), "habit": ""}
                | {"choice": draw.below(1 << 16), "wait_ms": draw.one_of((500, 3_000))}
            )
        late = {"kind": "late_response", "choice": 64, "for_ms": 50}  # a Produce request, handled
        large = {"kind": "too_large", "choice": 256 * draw.between(0, 3), "for_ms": 5}
        plan.faults += [
            {"at_ms": at_ms - 1, **late, **place},
            {"at_ms": at_ms + 5, **large, **place},
        ]
    plan.operations.sort(key=itemgetter("at_ms"))
    plan.faults.sort(key=itemgetter("at_ms"))
    del plan.faults[FAULTS_MAX:]


def reject_the_oldest(plan: "Plan") -> None:
    """Reject the oldest of some batches in flight, and let one behind it lose its connection.

    In half of the plans the rejected batch is too large, and is tried again in parts, while those
    behind it have no attempt left; in the others the partition is gone by then.
    """
    draw = Draw(plan.seed, "pipeline")
    is_gone = draw.chance(0.5)
    set_all(plan, acks="all", enable_idempotence=True, batch_size=200, linger_ms=0)
    set_all(plan, request_timeout_ms=300, delivery_timeout_ms=20_000, buffer_memory=32 << 20)
    set_all(plan, max_in_flight_requests_per_connection=5, on_buffer_full="block")
    if not is_gone:
        set_all(plan, retries=1)
    plan.topics = dict.fromkeys(plan.topics, 4)
    pace_ms = draw.one_of((200, 400))
    for entry in plan.operations:
        if entry["kind"] == "purge":
            entry["kind"] = "flush"
        if "partition" in entry:
            entry |= {"partition": 3, "size": min(entry["size"], 60)}
            entry |= {"count": draw.between(4, 8), "at_ms": entry["at_ms"] // pace_ms * pace_ms}
    plan.faults = []
    for at_ms in range(pace_ms, plan.load_ms, pace_ms):
        topic = draw.one_of(sorted(plan.topics))
        place = {"broker": 0, "topic": topic, "for_ms": 5}
        choice = draw.below(1 << 16)
        # For `reject_then_lose`: any code, no response, the topic has one partition from now on.
        choice = choice & 0x1FFF | 0xB00 if is_gone else choice & ~0x900
        kinds = [("reject_then_lose", at_ms - 1, choice)]
        if is_gone:
            kinds.append(("remake_topic", at_ms + 2 * pace_ms, 3))
        plan.faults += [
            {"at_ms": when_ms, "kind": kind, "choice": choice, **place}
            for kind, when_ms, choice in kinds
        ]
    plan.operations.sort(key=itemgetter("at_ms"))
    plan.faults.sort(key=itemgetter("at_ms"))


def shape_rarely(plan: "Plan") -> None:
    """Give one plan in twenty each of the shapes that make few other states."""
    roll = Draw(plan.seed, "shape").below(100)
    if roll < _RARE_PERCENT:
        write_half(plan)
    elif roll < 2 * _RARE_PERCENT:
        sleep_in_a_row(plan)
    elif roll < 3 * _RARE_PERCENT:
        learn_late(plan)


def learn_late(plan: "Plan") -> None:
    """Change the cluster while a response from before the change is in flight to the client.

    Either a topic grows behind a Metadata response, and a record goes to the new partition; or a
    leader moves behind a Produce response, and another record goes to its partition.
    """
    draw = Draw(plan.seed, "learners")
    plan.producers = plan.producers[:1]
    set_all(plan, **_LEARN)
    plan.brokers = max(plan.brokers, 2)
    if plan.mode == "engine":  # where no call waits for a response
        plan.mode = "threads"
    plan.load_ms = max(plan.load_ms, 3 * _LEARN_PACE_MS)
    plan.operations, plan.faults = [], []
    topic = draw.one_of(sorted(plan.topics))
    count = plan.topics[topic] = min(plan.topics[topic], 3)  # so that it can grow
    for at_ms in range(_LEARN_PACE_MS // 2, plan.load_ms, _LEARN_PACE_MS):
        choice = draw.below(1 << 16)
        sends: list[tuple[int, int]]  # when, and to which partition
        faults: list[tuple[int, str, int]]
        if count < PARTITIONS_MAX and draw.chance(0.5):
            sends = [(2, count), (60, count)]
            faults = [(0, "late_response", _LATE_METADATA), (50, "grow_topic", 0)]
            count += 1
        else:
            place = choice % count
            sends = [(0, place), (102, place), (130, count), (200, place)]
            faults = [(100, "late_response", _LATE_PRODUCE), (120, "move_leader", choice)]
        for caller, (offset_ms, partition) in enumerate(sends):
            plan.operations.append(
                {"at_ms": at_ms + offset_ms, "kind": "send", "producer": 0, "caller": caller}
                | {"topic": topic, "partition": partition, "key": -1, "habit": ""}
                | {"count": 1, "size": draw.between(8, 200), "observers": draw.between(0, 3)}
                | {"wait_ms": 500}
            )
        plan.faults += [
            {"at_ms": at_ms + offset_ms, "kind": kind, "choice": choice}
            | {"broker": 0, "topic": topic, "for_ms": 1_000}
            for offset_ms, kind, choice in faults
        ]


def sleep_in_a_row(plan: "Plan") -> None:
    """Let callbacks sleep one after the other, past the deadlines of batches in flight.

    The responses arrive meanwhile, and records are sent that are late when the callbacks return.
    """
    draw = Draw(plan.seed, "sleepers")
    set_all(plan, request_timeout_ms=300, linger_ms=0, buffer_memory=32 << 20)
    set_all(plan, delivery_timeout_ms=draw.one_of((350, 350, 700, 5_000)))
    set_all(plan, batch_size=draw.one_of((1, 200, 1_000)))
    set_all(plan, max_in_flight_requests_per_connection=5, on_buffer_full="block")
    if plan.mode == "engine":  # it has no sender's thread, whose callbacks sleep
        plan.mode = "threads"
    plan.load_ms = max(plan.load_ms, 2 * _SLEEP_PACE_MS)
    plan.operations, plan.faults = [], []
    topic = next(iter(plan.topics))
    late_ms = (1, 100, 450, 900, 1_600)
    kinds = draw.one_of((("send",), ("send", "ask"), ("ask",)))
    is_late_slow = draw.chance(0.5)
    for round_ms in range(20, plan.load_ms, _SLEEP_PACE_MS):
        producer = draw.below(len(plan.producers))
        for place, delay_ms in enumerate((0,) * _SLEEPERS + late_ms):
            is_late = place >= _SLEEPERS
            plan.operations.append(
                {"at_ms": round_ms + delay_ms + draw.between(0, 100 * is_late)}
                | {"kind": draw.one_of(kinds), "producer": producer, "caller": place % _SLEEPERS}
                | {"topic": topic, "partition": 0, "key": -1}
                | {"count": draw.between(1, 5), "size": draw.between(8, 200)}
                | {"observers": draw.between(1, 3)}
                | {"habit": "sleep" if not is_late or (is_late_slow and draw.chance(0.5)) else ""}
                | {"wait_ms": 500}
            )
    plan.operations.sort(key=itemgetter("at_ms"))


def write_half(plan: "Plan") -> None:
    """Let the deadline of a batch pass while its request is half written.

    The sender is stopped for a moment, so that it writes the batch late. What it writes arrives
    after the deadline, and the broker takes the rest before the request times out.
    """
    draw = Draw(plan.seed, "halves")
    set_all(plan, **_HALF)
    plan.load_ms = max(plan.load_ms, 2 * _HALF_PACE_MS)
    rounds = (plan.load_ms - 1) // _HALF_PACE_MS
    for number, entry in enumerate(plan.operations):
        entry["at_ms"] = _HALF_PACE_MS * (1 + number % rounds)
        if entry["kind"] == "send":
            entry |= {"size": draw.between(400, 2_000), "count": min(entry["count"], 5)}
    plan.operations.sort(key=itemgetter("at_ms"))
    plan.faults = []
    place = {"broker": 0, "topic": next(iter(plan.topics))}
    for at_ms in range(_HALF_PACE_MS, plan.load_ms, _HALF_PACE_MS):
        window = {"kind": "window", "choice": draw.below(1 << 16), "for_ms": 1_400}
        held = {"kind": "swizzle", "choice": draw.below(1 << 16), "for_ms": 1_070}
        plan.faults += [{"at_ms": at_ms - 10, **fault, **place} for fault in (window, held)]
        plan.faults += [
            {"at_ms": at_ms - 5, "kind": "freeze", "choice": number, "for_ms": 300, **place}
            for number in range(len(plan.producers))
        ]


def rest(plan: "Plan") -> None:
    """Put rests into the load: later operations are delayed by their length."""
    draw = Draw(plan.seed, "rests")
    place = draw.between(50, 400)
    passed_ms = 0
    while place < plan.load_ms and len(plan.rests) < _RESTS_MAX:
        plan.rests.append({"at_ms": place + passed_ms, "for_ms": REST_MS})
        passed_ms += REST_MS
        place += draw.between(100, 1_500)
    for entries in (plan.operations, plan.faults, plan.readings):
        for entry in entries:
            before = sum(
                rest["at_ms"] - number * REST_MS <= entry["at_ms"]
                for number, rest in enumerate(plan.rests)
            )
            entry["at_ms"] += before * REST_MS
    plan.load_ms += passed_ms
