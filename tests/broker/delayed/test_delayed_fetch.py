"""Fetch: when the response leaves, and with what."""

from kprod.protocol.error_table import ErrorCode
from tests.broker.world import World, batch, part


def test_nothing_to_read_waits_for_the_whole_time() -> None:
    """With `min_bytes` unmet the response leaves after `max_wait_ms`, empty and without error."""
    world = World()
    client = world.client()

    sent = client.fetch(0, max_wait_ms=200)
    world.advance(199)
    early = client.answers()
    world.advance(1)

    assert early == {}
    answer = part(client.answers()[sent])
    assert (answer["error_code"], bytes(answer["records"])) == (ErrorCode.NONE, b"")


def test_enough_bytes_wake_the_fetch() -> None:
    """The append that reaches `min_bytes` sends the response, the one before does not."""
    world = World()
    client, producer = world.client(), world.client()

    sent = client.fetch(0, min_bytes=len(batch()) + 1, max_wait_ms=10_000)
    producer.produced(batch())
    early = client.answers()
    producer.produced(batch())
    world.step()

    assert early == {}
    assert len(part(client.answers()[sent])["records"]) == 2 * len(batch())


def test_only_replicated_records_count() -> None:
    """Consumers see up to the high watermark."""
    world = World()
    world.cluster.set_follower_lag("orders", 0, 1, None)
    client = world.client()

    sent = client.fetch(0, max_wait_ms=10_000)
    world.client().produced(batch(), acks=1)
    early = client.answers()
    world.cluster.catch_up("orders", 0, 1)
    world.step()

    assert early == {}
    assert len(part(client.answers()[sent])["records"]) == len(batch())


def test_a_move_of_the_leader_wakes_the_fetch() -> None:
    """The old leader says who leads now."""
    world = World()
    client = world.client()

    sent = client.fetch(0, max_wait_ms=10_000)
    world.cluster.move_leader("orders", 0, to=1)
    world.step()

    answer = part(client.answers()[sent])
    assert answer["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer["current_leader"] == {"leader_id": 1, "leader_epoch": 1}


def test_a_deleted_topic_wakes_the_fetch() -> None:
    """No fetch waits for a deleted topic."""
    world = World()
    client = world.client()

    sent = client.fetch(0, max_wait_ms=10_000)
    world.cluster.delete_topic("orders")
    world.step()

    assert part(client.answers()[sent])["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_offset_that_truncation_cuts_off_wakes_the_fetch() -> None:
    """An offset beyond the new end is out of range at once."""
    world = World()
    client = world.client()
    client.produced(batch(3))

    sent = client.fetch(3, max_wait_ms=10_000)
    world.cluster.truncate("orders", 0, 0)
    world.step()

    assert part(client.answers()[sent])["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_and_epochs_are_checked() -> None:
    """Out of range and fenced or unknown epochs are answered at once."""
    world = World()
    client = world.client()
    world.cluster.move_leader("orders", 0, to=1)
    world.cluster.move_leader("orders", 0, to=0)

    beyond = client.fetched(1, max_wait_ms=100)
    fenced = client.fetched(0, leader_epoch=1, max_wait_ms=100)
    unknown = client.fetched(0, leader_epoch=3, max_wait_ms=100)

    assert beyond["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fenced["error_code"] == ErrorCode.FENCED_LEADER_EPOCH
    assert unknown["error_code"] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_first_batch_comes_whatever_its_size() -> None:
    """A limit of one byte must not stop a consumer for ever."""
    world = World()
    client = world.client()
    client.produced(batch(50))
    client.produced(batch(1))

    assert len(client.fetched(0, max_bytes=1)["records"]) == len(batch(50))
    assert len(client.fetched(50)["records"]) == len(batch(1))
