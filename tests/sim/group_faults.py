"""Faults of runs with groups: coordinators that move, stop or lag, and what becomes of requests."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kprod.broker import Rejected
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.sim.plan import Entry

if TYPE_CHECKING:
    from kprod.broker.group.shard import CoordinatorShard
    from tests.sim.world import World

APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)
_CODES = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Codes that say nothing about the group."""
FOLLOWERS = 2
"""Of each partition of `__consumer_offsets`, if three brokers run."""
_LATE_FACTOR = 4
REJOIN_MS = 60
"""Until most members have heard of a rebalance and joined again."""
SYNC_MS = 60
"""Until most members have found the next coordinator and repeated their request."""


def _name(world: "World", entry: Entry) -> str:
    names = (world.plan.groups or world.plan.crew)["names"]
    return str(names[entry["choice"] % len(names)])


def loaded_shard(world: "World", name: str) -> "CoordinatorShard | None":
    """Return the coordinator shard of a group; None while it is loading or nobody leads."""
    groups = world.cluster._kprod.engine.state.groups
    try:
        shard: CoordinatorShard = groups.shard(groups.partition_of(name).leader_id, name)
    except Rejected:
        return None
    return shard


def in_sync_brokers(world: "World", name: str) -> list[int]:
    """Return the running brokers that have all of what a group's coordinator has written."""
    partition = world.cluster._kprod.engine.state.groups.partition_of(name)
    in_sync = world.cluster.describe(OFFSETS_TOPIC, partition.name.partition).isr
    return [it for it in in_sync if world.is_alive(it)]


def _coordinator_move(world: "World", entry: Entry) -> None:
    """Move a coordinator within the in-sync set, since another broker would lose what it lacks."""
    name = _name(world, entry)
    brokers = in_sync_brokers(world, name)
    if brokers:
        to = brokers[(entry["choice"] >> 4) % len(brokers)]
        world.cluster.move_coordinator(name, to=to)


def _coordinator_lapse(world: "World", entry: Entry) -> None:
    """Let a follower lag during a rebalance, move the coordinator beside it, and then to it.

    The second coordinator finds records that the third one does not have.
    """
    name = _name(world, entry)
    partition = world.cluster._kprod.engine.state.groups.partition_of(name)
    followers = [it for it in in_sync_brokers(world, name) if it != partition.leader_id]
    if len(followers) < FOLLOWERS:
        return
    beside, behind = followers
    index = partition.name.partition
    world.cluster.set_follower_lag(OFFSETS_TOPIC, index, behind, None)
    _group_rebalance(world, entry)
    written_ms = REJOIN_MS + entry["for_ms"]

    def move(to: int) -> None:
        if to in in_sync_brokers(world, name):
            world.cluster.move_coordinator(name, to=to)

    world.later(written_ms, lambda: move(beside))
    world.later(written_ms + SYNC_MS, lambda: move(behind))
    world.later(written_ms + SYNC_MS + 1, lambda: hold_followers(world, 0))


def _coordinator_stop(world: "World", entry: Entry) -> None:
    """Stop the broker that coordinates, and start it later."""
    try:
        broker = world.cluster.group(_name(world, entry)).coordinator
    except Rejected:
        return
    if world.is_alive(broker):
        world.happened("stop_broker")  # which producers notice as well
        world.cluster.stop_broker(broker)
        world.later(entry["for_ms"], lambda: world.revive(broker))


def _group_error(world: "World", entry: Entry) -> None:
    choice = entry["choice"]
    code = _CODES[(choice >> 4) % len(_CODES)]
    world.cluster.faults.fail_next(APIS[choice % len(APIS)], code, handled=bool(choice & 256))


def _group_lost(world: "World", entry: Entry) -> None:
    """Lose a request, its response, or a part of that."""
    choice, faults = entry["choice"], world.cluster.faults
    api, handled = APIS[choice % len(APIS)], bool(choice & 256)
    losses: tuple[Callable[[], object], ...] = (
        lambda: faults.drop(api, handled=handled),
        lambda: faults.delay(api, _LATE_FACTOR * entry["for_ms"], handled=handled),
        lambda: faults.disconnect(api, handled=handled),
        lambda: faults.cut(api, (choice >> 9) % 100),
    )
    losses[(choice >> 4) % len(losses)]()


def longest_delay_ms(world: "World") -> int:
    """Return how long after the last fault a delayed request may still be processed."""
    delays = [it["for_ms"] for it in world.plan.faults if it["kind"] == "group_lost"]
    return _LATE_FACTOR * max(delays, default=0)


def _group_lag(world: "World", entry: Entry) -> None:
    """Let a follower of `__consumer_offsets` lag, so that writes wait for it."""
    hold_followers(world, 1 + entry["choice"] % 400)
    world.later(entry["for_ms"], lambda: hold_followers(world, 0))


def hold_followers(world: "World", lag_ms: int) -> None:
    """Set the lag of one follower of each partition of `__consumer_offsets`.

    Args:
        world: World of the run.
        lag_ms: Milliseconds; 0 for none, of any follower.
    """
    topic = world.cluster._kprod.engine.state.topics.get(OFFSETS_TOPIC)
    for partition in topic.partitions if topic is not None else ():
        index = partition.name.partition
        replicas = world.cluster.describe(OFFSETS_TOPIC, index).replicas
        followers = [it for it in replicas if it != partition.leader_id]
        for node in followers[: 1 if lag_ms else None]:
            world.cluster.set_follower_lag(OFFSETS_TOPIC, index, node, lag_ms)


def _group_rebalance(world: "World", entry: Entry) -> None:
    try:
        world.cluster.rebalance(_name(world, entry))
    except Rejected:
        world.count("group without members")


def _group_expire(world: "World", entry: Entry) -> None:
    name = _name(world, entry)
    try:
        members = world.cluster.group(name).members
    except Rejected:
        return
    if members:
        member = members[(entry["choice"] >> 4) % len(members)].member_id
        if name in world.groups.books:
            world.groups.books[name].excuse(member)
        world.cluster.expire_member(name, member)


FUNCTIONS: Mapping[str, Callable[["World", Entry], None]] = {
    "coordinator_lapse": _coordinator_lapse,
    "coordinator_move": _coordinator_move,
    "coordinator_stop": _coordinator_stop,
    "group_error": _group_error,
    "group_lost": _group_lost,
    "group_lag": _group_lag,
    "group_rebalance": _group_rebalance,
    "group_expire": _group_expire,
}
"""Every kind by its name in a plan."""
