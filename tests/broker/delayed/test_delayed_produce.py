"""acks=all: when the response leaves, and with what."""

from kprod.broker import EmbeddedConfig
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch, part


def held_world(config: EmbeddedConfig | None = None) -> World:
    """A world whose follower on broker 1 copies nothing until told."""
    world = World(config=config)
    world.cluster.set_follower_lag("orders", 0, 1, None)
    return world


def test_the_answer_waits_for_every_in_sync_replica() -> None:
    """One follower behind holds the response and the high watermark back."""
    world = held_world()
    client = world.client()

    sent = client.produce(batch(2))
    before = client.answers()
    offsets_before = world.cluster.describe("orders", 0)
    world.cluster.catch_up("orders", 0, 1)
    world.step()

    assert before == {}
    assert (offsets_before.log_end_offset, offsets_before.high_watermark) == (2, 0)
    assert part(client.answers()[sent])["base_offset"] == 0
    assert world.cluster.describe("orders", 0).high_watermark == 2


def test_acks_1_does_not_wait() -> None:
    """The leader alone is enough."""
    assert held_world().client().produced(batch(), acks=1)["error_code"] == ErrorCode.NONE


def test_a_lag_in_milliseconds_delays_the_answer() -> None:
    """A follower that copies 40 ms later lets the response go 40 ms later, not earlier."""
    world = World()
    world.cluster.set_follower_lag("orders", 0, 2, 40)
    client = world.client()

    sent = client.produce(batch())
    world.advance(39)
    early = client.answers()
    world.advance(1)

    assert early == {}
    assert part(client.answers()[sent])["error_code"] == ErrorCode.NONE


def test_the_time_is_up() -> None:
    """After the request's timeout REQUEST_TIMED_OUT is answered, and the batch stays."""
    world = held_world()
    client = world.client()

    sent = client.produce(batch(), timeout_ms=500)
    world.advance(499)
    early = client.answers()
    world.advance(1)

    assert early == {}
    assert part(client.answers()[sent])["error_code"] == ErrorCode.REQUEST_TIMED_OUT
    assert len(world.cluster.records("orders")[0]) == 1


def test_the_leader_moves_meanwhile() -> None:
    """The old leader answers NOT_LEADER_OR_FOLLOWER with the new one."""
    world = held_world()
    client = world.client()

    sent = client.produce(batch(), version=12)
    world.cluster.move_leader("orders", 0, to=1)
    world.step()

    answer = part(client.answers()[sent])
    assert answer["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer["current_leader"] == {"leader_id": 1, "leader_epoch": 1}
    assert world.cluster.records("orders") == {0: []}


def test_too_few_in_sync_before_the_append() -> None:
    """With `min.insync.replicas` unmet nothing is written."""
    world = World(config=EmbeddedConfig(min_insync_replicas=3))
    world.cluster.stop_broker(2)

    answer = world.client().produced(batch())

    assert answer["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.cluster.records("orders") == {0: []}


def test_too_few_in_sync_after_the_append() -> None:
    """A follower that leaves while the batch waits makes it NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    world = held_world(EmbeddedConfig(min_insync_replicas=3))
    client = world.client()

    sent = client.produce(batch())
    world.cluster.stop_broker(1)
    world.step()

    answer = part(client.answers()[sent])
    assert answer["error_code"] == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert len(world.cluster.records("orders")[0]) == 1


def test_a_follower_behind_for_too_long_leaves_the_in_sync_set() -> None:
    """Then the high watermark continues without it; once caught up it is back."""
    world = held_world(EmbeddedConfig(replica_lag_time_max_ms=300))
    client = world.client()

    sent = client.produce(batch(), timeout_ms=10_000)
    world.advance(300)
    shrunk = world.cluster.describe("orders", 0)
    world.cluster.set_follower_lag("orders", 0, 1, 0)
    world.step()

    assert part(client.answers()[sent])["error_code"] == ErrorCode.NONE
    assert sorted(shrunk.isr) == [0, 2]
    assert sorted(world.cluster.describe("orders", 0).isr) == [0, 1, 2]


def test_a_delayed_request_holds_back_those_behind_it() -> None:
    """A second request on the connection is not even handled before the first is answered."""
    world = held_world()
    client = world.client()

    first = client.produce(batch())
    second = client.produce(batch(), acks=1)
    before = world.cluster.describe("orders", 0).log_end_offset
    world.cluster.catch_up("orders", 0, 1)
    world.step()

    assert before == 1
    assert list(client.answers()) == [first, second]


def test_a_duplicate_waits_as_the_first_did() -> None:
    """The retry of a batch that is not replicated yet is answered when it is."""
    world = held_world()
    one, other = world.client(), world.client()
    again = batch(2, producer_id=5, producer_epoch=0, base_sequence=0)

    one.produce(again)
    sent = other.produce(again)
    before = other.answers()
    world.cluster.catch_up("orders", 0, 1)
    world.step()

    assert before == {}
    assert part(other.answers()[sent])["base_offset"] == 0
    assert len(world.cluster.records("orders")[0]) == 2
