"""The faults of a run: one function for each kind.

A fault may be cruel, and never impossible: a broker's response says what the broker did. Each
function takes the world and an entry of the plan; a fault that lasts undoes itself.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kprod.broker import Rejected
from kprod.protocol.api import ApiKey
from tests.sim import group_faults, reader_faults
from tests.sim.link import UNBOUNDED
from tests.sim.plan import Entry
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.link import Link
    from tests.sim.reader import Reader
    from tests.sim.world import World

BEFORE_APPEND = (-1, 2, 3, 5, 6, 7, 9, 13, 19, 56)
"""Codes of a broker that has not appended the batch; most let the client try again."""
FINAL = (10, 29, 87)
"""Codes that end a batch that is not appended."""
TOO_LARGE = 10
SEQUENCE = (45, 59)
"""Codes of a broker that does not know what came before the batch, or the producer."""
FATAL = (31, 35, 53, 90)
"""Codes after which a producer cannot continue."""
AFTER_APPEND = (-1, 6, 7, 20, 46, 56)
"""Codes after which the batch may be in the log; 46 says that it is."""
TAKEN = 46
OLD_EPOCH = 47
METADATA = (3, 5)
PRODUCER_ID = (7, 14, 15, 16, 51)
_SPOILT_APIS = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID)


def _link(world: "World", entry: Entry) -> "Link | None":
    links = world.network.live_links()
    return links[entry["choice"] % len(links)] if links else None


def _hold(world: "World", entry: Entry) -> None:
    if link := _link(world, entry):
        link.hold(4 * entry["for_ms"] * MS)  # up to 12 s: a request that its client gave up on


def _slow(world: "World", entry: Entry) -> None:
    world.network.conditions.delay_ns = (1 + entry["choice"] % 400) * MS
    world.later(entry["for_ms"], lambda: setattr(world.network.conditions, "delay_ns", MS // 4))


def _slice(world: "World", entry: Entry) -> None:
    conditions = world.network.conditions
    before = conditions.slice_max
    conditions.slice_max = 50 + entry["choice"] % 1_000
    world.later(entry["for_ms"], lambda: setattr(conditions, "slice_max", before))


def _window(world: "World", entry: Entry) -> None:
    conditions = world.network.conditions
    conditions.window = 1 + entry["choice"] % 900

    def widen() -> None:
        conditions.window = 1 << 40
        world.network.tell_all()

    world.later(entry["for_ms"], widen)


def _cut(world: "World", entry: Entry) -> None:
    if link := _link(world, entry):
        if link.up.flying_bytes or link.down.flying_bytes:
            world.count("cut with a request in flight")
        link.cut(loses=bool(entry["choice"] & 256))


def _half_open(world: "World", entry: Entry) -> None:
    if link := _link(world, entry):
        link.go_silent()


def _refuse(world: "World", entry: Entry) -> None:
    conditions = world.network.conditions
    conditions.is_refusing = True
    world.later(entry["for_ms"], lambda: setattr(conditions, "is_refusing", False))


def _black_hole(world: "World", entry: Entry) -> None:
    conditions = world.network.conditions
    conditions.is_black_hole = True
    world.later(entry["for_ms"], lambda: setattr(conditions, "is_black_hole", False))


def _swizzle(world: "World", entry: Entry) -> None:
    for number, link in enumerate(world.network.live_links()):
        link.hold((entry["for_ms"] + 37 * ((number * 7 + entry["choice"]) % 11)) * MS)


def _stop_broker(world: "World", entry: Entry) -> None:
    if not world.is_alive(entry["broker"]):
        return
    world.cluster.stop_broker(entry["broker"])
    world.later(entry["for_ms"], lambda: world.revive(entry["broker"]))


def _stall(world: "World", entry: Entry) -> None:
    world.cluster.faults.stall(entry["broker"])
    world.later(entry["for_ms"], lambda: world.cluster.faults.resume(entry["broker"]))


def _move_leader(world: "World", entry: Entry) -> None:
    topic = entry["topic"]
    partition = entry["choice"] % world.topics.counts[topic]
    view = world.cluster.describe(topic, partition)
    sound = [node for node in view.isr if world.is_alive(node)]
    if sound:
        world.cluster.move_leader(topic, partition, to=sound[(entry["choice"] >> 4) % len(sound)])


def _lag(world: "World", entry: Entry) -> None:
    topic, choice = entry["topic"], entry["choice"]
    partition = choice % world.topics.counts[topic]
    lag_ms = (0, 5, 100, 1_000, None)[(choice >> 4) % 5]
    followers = world.cluster.describe(topic, partition).replicas
    try:
        world.cluster.set_follower_lag(topic, partition, followers[choice % len(followers)], lag_ms)
    except Rejected:
        world.count("lag of a leader")


def _disconnect_all(world: "World", entry: Entry) -> None:
    world.cluster.disconnect_clients(entry["broker"])


def _throttle(world: "World", entry: Entry) -> None:
    api = ApiKey.PRODUCE if entry["choice"] & 1 else ApiKey.METADATA
    world.cluster.throttle(api, entry["for_ms"])
    # The last response that says so may come when the fault ends.
    until_ns = world.scheduler.now_ns + 2 * entry["for_ms"] * MS
    world.throttled_until_ns = max(world.throttled_until_ns, until_ns)
    world.later(entry["for_ms"], lambda: world.cluster.throttle(api, 0))


def _error_before(world: "World", entry: Entry) -> None:
    code = BEFORE_APPEND[entry["choice"] % len(BEFORE_APPEND)]
    world.cluster.faults.fail_next(ApiKey.PRODUCE, code)


def _error_final(world: "World", entry: Entry) -> None:
    code = FINAL[entry["choice"] % len(FINAL)]
    world.cluster.faults.fail_next(ApiKey.PRODUCE, code)


def _too_large(world: "World", entry: Entry) -> None:
    for _ in range(1 + entry["choice"] % 4):  # a part of a batch may be too large, too
        world.cluster.faults.fail_next(ApiKey.PRODUCE, TOO_LARGE)
    if entry["choice"] & 256:
        world.cluster.faults.fail_next(ApiKey.PRODUCE, FINAL[-1])  # and another is invalid


def _reject_then_lose(world: "World", entry: Entry) -> None:
    """Reject a batch, and let the connection end at one of the next requests."""
    choice, faults = entry["choice"], world.cluster.faults
    codes = (TOO_LARGE, *BEFORE_APPEND)
    faults.fail_next(ApiKey.PRODUCE, codes[choice % len(codes)] if choice & 256 else TOO_LARGE)
    lose = faults.drop if choice & 512 else faults.disconnect
    lose(ApiKey.PRODUCE, handled=bool(choice & 1024), skip=1 + (choice >> 12) % 6)
    if choice & 2048:
        _remake_topic(world, entry | {"choice": 0})


def _sequence_error(world: "World", entry: Entry) -> None:
    code = (*SEQUENCE, OLD_EPOCH)[entry["choice"] % 3]
    world.cluster.faults.fail_next(ApiKey.PRODUCE, code)


def _error_fatal(world: "World", entry: Entry) -> None:
    code = FATAL[entry["choice"] % len(FATAL)]
    api = ApiKey.INIT_PRODUCER_ID if entry["choice"] & 512 else ApiKey.PRODUCE
    for _ in range(3 if entry["choice"] & 1024 else 1):  # three reach requests in flight together
        world.cluster.faults.fail_next(api, code)


def _remake_topic(world: "World", entry: Entry) -> None:
    if not world.topics.remake(entry["topic"], 1 + entry["choice"] % 4):
        world.count("topic was remade often enough")


def _grow_topic(world: "World", entry: Entry) -> None:
    if not world.topics.grow(entry["topic"]):
        world.count("topic has grown enough")


def _names_fail(world: "World", entry: Entry) -> None:
    clients: list[Client | Reader] = [*world.clients, *world.readers.open]
    for client in clients:
        client.resolver.is_failing = True
    world.later(entry["for_ms"], lambda: _names_work(clients))


def _names_work(clients: "list[Client | Reader]") -> None:
    for client in clients:
        client.resolver.is_failing = False


def _drip(world: "World", entry: Entry) -> None:
    conditions = world.network.conditions
    conditions.slice_max, conditions.delay_ns = 10 + entry["choice"] % 60, 3 * MS

    def stop() -> None:
        conditions.slice_max, conditions.delay_ns = UNBOUNDED, MS // 4

    world.later(min(entry["for_ms"], 300), stop)


def _stale_metadata(world: "World", entry: Entry) -> None:
    """Let a broker that has not heard of the latest changes answer."""
    world.cluster.faults.rewrite(
        ApiKey.METADATA, lambda frame: world.topics.older_metadata(frame, entry["choice"])
    )


def _error_metadata(world: "World", entry: Entry) -> None:
    code = METADATA[entry["choice"] % len(METADATA)]
    world.cluster.faults.fail_next(ApiKey.METADATA, code)


def _error_producer_id(world: "World", entry: Entry) -> None:
    code = PRODUCER_ID[entry["choice"] % len(PRODUCER_ID)]
    world.cluster.faults.fail_next(ApiKey.INIT_PRODUCER_ID, code)


def _api(entry: Entry) -> ApiKey:
    return _SPOILT_APIS[entry["choice"] % len(_SPOILT_APIS)]


def _no_response(world: "World", entry: Entry) -> None:
    world.cluster.faults.drop(_api(entry), handled=bool(entry["choice"] & 64))


def _late_response(world: "World", entry: Entry) -> None:
    handled = bool(entry["choice"] & 64)
    world.cluster.faults.delay(_api(entry), entry["for_ms"], handled=handled)


def _disconnect(world: "World", entry: Entry) -> None:
    world.cluster.faults.disconnect(_api(entry), handled=bool(entry["choice"] & 64))


def _twice(world: "World", _: Entry) -> None:
    world.cluster.faults.duplicate(ApiKey.PRODUCE)


def _error_after(world: "World", entry: Entry) -> None:
    code = AFTER_APPEND[entry["choice"] % len(AFTER_APPEND)]
    world.cluster.faults.fail_next(ApiKey.PRODUCE, code, handled=True)


def _omit(world: "World", _: Entry) -> None:
    world.cluster.faults.omit(ApiKey.PRODUCE)


def _empty(world: "World", _: Entry) -> None:
    world.cluster.faults.empty(ApiKey.PRODUCE)


def _cut_response(world: "World", entry: Entry) -> None:
    world.cluster.faults.cut(_api(entry), entry["choice"] % 90)


def _wrong_correlation(world: "World", entry: Entry) -> None:
    def spoil(frame: bytes) -> bytes:
        return ((int.from_bytes(frame[:4], "big") + 1) & 0x7FFFFFFF).to_bytes(4, "big") + frame[4:]

    world.cluster.faults.rewrite(_api(entry), spoil)


def _forget_topic(world: "World", entry: Entry) -> None:
    world.cluster.forget_topic(entry["topic"])
    world.later(entry["for_ms"], lambda: world.cluster.remember_topic(entry["topic"]))


def _memory_error(world: "World", entry: Entry) -> None:
    """Let one of the next calls of a client's I/O find no memory."""
    client = world.clients[entry["choice"] % len(world.clients)]
    client.shortage.calls_left = 1 + entry["choice"] % 40


def _freeze(world: "World", entry: Entry) -> None:
    client = world.clients[entry["choice"] % len(world.clients)]
    client.freeze(entry["for_ms"])


def _spurious_wakeup(world: "World", entry: Entry) -> None:
    client = world.clients[entry["choice"] % len(world.clients)]
    client.selector.wakeup()


def _wall_clock(world: "World", entry: Entry) -> None:
    hour_ms = 3_600_000
    now_ms = world.scheduler.clock.timestamp_ms()
    world.scheduler.clock.set_wall(now_ms + (hour_ms if entry["choice"] & 1 else -hour_ms))


def _crash(world: "World", entry: Entry) -> None:
    if world.machine.disk is not None:
        world.machine.crash(entry)


def _checkpoint(world: "World", _: Entry) -> None:
    if world.machine.disk is not None:
        world.machine.checkpoint()


def _restart(world: "World", entry: Entry) -> None:
    if world.machine.disk is not None:
        world.machine.restart(entry)


FAULTS: Mapping[str, Callable[["World", Entry], None]] = {
    "hold": _hold,
    "slow": _slow,
    "slice": _slice,
    "window": _window,
    "cut": _cut,
    "half_open": _half_open,
    "refuse": _refuse,
    "black_hole": _black_hole,
    "swizzle": _swizzle,
    "stop_broker": _stop_broker,
    "stall": _stall,
    "move_leader": _move_leader,
    "lag": _lag,
    "disconnect_all": _disconnect_all,
    "throttle": _throttle,
    "error_before": _error_before,
    "error_final": _error_final,
    "too_large": _too_large,
    "reject_then_lose": _reject_then_lose,
    "sequence_error": _sequence_error,
    "error_fatal": _error_fatal,
    "remake_topic": _remake_topic,
    "grow_topic": _grow_topic,
    "names_fail": _names_fail,
    "drip": _drip,
    "stale_metadata": _stale_metadata,
    "error_metadata": _error_metadata,
    "error_producer_id": _error_producer_id,
    "no_response": _no_response,
    "late_response": _late_response,
    "disconnect": _disconnect,
    "twice": _twice,
    "error_after": _error_after,
    "omit": _omit,
    "empty": _empty,
    "cut_response": _cut_response,
    "wrong_correlation": _wrong_correlation,
    "forget_topic": _forget_topic,
    "memory_error": _memory_error,
    "freeze": _freeze,
    "spurious_wakeup": _spurious_wakeup,
    "wall_clock": _wall_clock,
    "checkpoint": _checkpoint,
    "crash": _crash,
    "restart": _restart,
    **reader_faults.FUNCTIONS,
    **group_faults.FUNCTIONS,
}
"""Every kind of fault by its name in a plan."""
