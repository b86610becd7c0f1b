"""Sequences and epochs: what a partition accepts, repeats and rejects."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World, batch

LAST = 2**31 - 1


def sent(client: Client, sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
    """Produce one batch of producer 7; its error code and offset."""
    records = batch(count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    answer = client.produced(records)
    return answer["error_code"], answer["base_offset"]


def test_sequences_follow_each_other() -> None:
    """A gap is rejected and changes nothing; the next in order is accepted."""
    client = World().client()

    assert sent(client, 0, 3) == (ErrorCode.NONE, 0)
    assert sent(client, 4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sent(client, 3) == (ErrorCode.NONE, 3)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """The partition may have forgotten it, so its first sequence is taken as it is."""
    assert sent(World().client(), 1_000) == (ErrorCode.NONE, 0)


def test_the_last_five_batches_are_recognised() -> None:
    """A repeated batch gets its first offset; the sixth from the end is only out of order."""
    world = World()
    client = world.client()
    for sequence in range(6):
        sent(client, sequence)

    assert [sent(client, sequence) for sequence in range(1, 6)] == [
        (ErrorCode.NONE, sequence) for sequence in range(1, 6)
    ]
    assert sent(client, 0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert len(world.cluster.records("orders")[0]) == 6


def test_a_duplicate_has_the_same_length() -> None:
    """The same first sequence with another count is no duplicate."""
    client = World().client()
    sent(client, 0, 2)

    assert sent(client, 0, 1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_stale_epoch_is_rejected() -> None:
    """Once a newer epoch was seen the older one is fenced, even for a duplicate."""
    client = World().client()
    sent(client, 0, epoch=0)
    sent(client, 0, epoch=1)

    assert sent(client, 0, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert sent(client, 1, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_a_new_epoch_begins_with_sequence_0() -> None:
    """Anything else would hide records that were lost."""
    client = World().client()
    sent(client, 0, 3, epoch=0)

    assert sent(client, 3, epoch=1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sent(client, 0, epoch=1) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize(("start", "count", "follower"), [(LAST, 1, 0), (LAST - 1, 4, 2)])
def test_sequences_wrap_to_0(start: int, count: int, follower: int) -> None:
    """After 2³¹−1 comes 0, also inside a batch; the duplicate of such a batch is recognised."""
    client = World().client()

    assert sent(client, start, count) == (ErrorCode.NONE, 0)
    assert sent(client, follower) == (ErrorCode.NONE, count)
    assert sent(client, start, count) == (ErrorCode.NONE, 0)


def test_truncation_forgets_what_it_cuts() -> None:
    """The state follows the log: a lost batch may and must be sent again."""
    world = World()
    client = world.client()
    for sequence in range(4):
        sent(client, sequence)

    world.cluster.truncate("orders", 0, 2)

    assert sent(client, 3) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sent(client, 1) == (ErrorCode.NONE, 1)
    assert sent(client, 2) == (ErrorCode.NONE, 2)


def test_a_follower_behind_becomes_leader() -> None:
    """It knows only what it copied, and takes the rest again."""
    world = World()
    sent(world.client(), 0)
    world.cluster.set_follower_lag("orders", 0, 1, None)
    world.client().produce(batch(producer_id=7, producer_epoch=0, base_sequence=1), acks=1)

    world.cluster.move_leader("orders", 0, to=1)

    assert world.cluster.describe("orders", 0).log_end_offset == 1
    assert sent(world.client(1), 1) == (ErrorCode.NONE, 1)


@settings(max_examples=40)
@given(attempts=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=25))
def test_the_log_holds_each_sequence_once_and_in_order(attempts: list[tuple[int, int]]) -> None:
    """Whatever a producer tries, the accepted batches are a run of sequences from the first."""
    world = World(brokers=1)
    client = world.client()
    following, kept = None, 0
    for sequence, count in attempts:
        code, offset = sent(client, sequence, count)
        if code == ErrorCode.NONE and offset == kept:
            assert following in {None, sequence}
            following, kept = sequence + count, kept + count
        elif code == ErrorCode.NONE:
            assert offset < kept
        else:
            assert sequence != following

    assert len(world.cluster.records("orders")[0]) == kept
