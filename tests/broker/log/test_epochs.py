"""Leader epochs: where each begins and ends, beside a linear scan, and their file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.broker.log.epochs import UNKNOWN_END, EpochEnd, EpochStart, LeaderEpochs
from kprod.errors import CorruptRecord
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World, batch, part

# The epoch that each offset of a log was written in.
HISTORIES = st.lists(st.integers(0, 3), min_size=1, max_size=30).map(
    lambda steps: [sum(steps[: index + 1]) for index in range(len(steps))]
)


def table(history: list[int], start: int = 0) -> LeaderEpochs:
    """The epochs of a log that begins at an offset."""
    epochs = LeaderEpochs()
    for offset in range(start, len(history)):
        epochs.assign(history[offset], offset)
    return epochs


@given(history=HISTORIES, epoch=st.integers(-1, 95))
def test_the_end_of_an_epoch_is_that_of_a_linear_scan(history: list[int], epoch: int) -> None:
    """The first offset of a later epoch, told under the largest epoch up to the one asked for."""
    end = table(history).end_of(epoch, len(history))

    if epoch < 0 or epoch > history[-1]:
        assert end == UNKNOWN_END
        return
    known = [it for it in history if it <= epoch]
    later = [offset for offset, it in enumerate(history) if it > epoch]
    assert end == EpochEnd(known[-1] if known else epoch, later[0] if later else len(history))


@given(history=HISTORIES, offset=st.integers(0, 32))
def test_a_truncated_log_has_the_epochs_of_its_rest(history: list[int], offset: int) -> None:
    """No epoch is left behind (KAFKA-10706)."""
    epochs = table(history)
    epochs.truncate_to(offset)

    assert epochs.starts == table(history[:offset]).starts
    assert epochs.latest_epoch == (history[:offset] or [-1])[-1]


@given(history=HISTORIES, data=st.data())
def test_a_log_that_begins_later_has_the_epochs_from_there(
    history: list[int], data: st.DataObject
) -> None:
    """The epoch of its first record begins there."""
    start = data.draw(st.integers(0, len(history) - 1))
    epochs = table(history)
    epochs.raise_start(start)

    assert epochs.starts == table(history, start).starts


def test_an_epoch_without_records_gives_way() -> None:
    """Two epochs cannot begin at one offset."""
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(3, 0)

    assert epochs.starts == (EpochStart(3, 0),)


@given(history=HISTORIES)
def test_the_file_is_read_as_it_was_written(history: list[int]) -> None:
    """Version, count, and a line for each."""
    epochs = table(history)

    assert LeaderEpochs.decoded(epochs.encoded()).starts == epochs.starts


def test_the_file_is_kafkas() -> None:
    """Epoch 0 is in it, too (KAFKA-10432)."""
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(4, 17)])

    assert epochs.encoded() == b"0\n2\n0 0\n4 17\n"
    assert LeaderEpochs.decoded(b"").starts == ()


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n",
        b"0\nx\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\na b\n",
        b"0\n2\n1 0\n0 5\n",
        b"0\n2\n0 5\n1 5\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -1\n",
        b"\xff\xfe",
        b"\n\n\n",
    ],
)
def test_a_malformed_file_is_rejected(content: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(CorruptRecord, match="leader-epoch-checkpoint"):
        LeaderEpochs.decoded(content)


def ends(client: Client, *epochs: int, current: int = -1) -> list[tuple[int, int, int]]:
    """Ask where epochs end: code, epoch, offset."""
    answers = []
    for epoch in epochs:
        entry = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
        topics = [{"topic": "orders", "partitions": [entry]}]
        (topic,) = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": topics})["topics"]
        (it,) = topic["partitions"]
        answers.append((it["error_code"], it["leader_epoch"], it["end_offset"]))
    return answers


def world_with_three_leaders() -> World:
    """Epoch 0 has offsets 0 to 2, epoch 1 none, epoch 2 the offset 3."""
    world = World()
    world.client(0).produced(batch(3))
    world.cluster.move_leader("orders", 0, to=1)
    world.cluster.move_leader("orders", 0, to=0)
    world.client(0).produced(batch())
    return world


def test_the_ends_of_epochs_are_told() -> None:
    """Those of a leader that wrote nothing, too."""
    client = world_with_three_leaders().client(0)

    assert ends(client, 0, 1, 2, 3) == [(0, 0, 3), (0, 0, 3), (0, 2, 4), (0, -1, -1)]
    assert ends(client, 0, current=1) == [(ErrorCode.FENCED_LEADER_EPOCH, -1, -1)]
    assert ends(client, 0, current=3) == [(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)]


def test_a_lost_suffix_is_found_by_its_epoch() -> None:
    """A consumer uses the response: it goes back to the end of the epoch that it has read."""
    world = World()
    world.cluster.set_follower_lag("orders", 0, 1, None)
    world.client(0).produced(batch(5), acks=1)
    world.cluster.move_leader("orders", 0, to=1)

    client = world.client(1)
    client.produced(batch(2))

    assert ends(client, 0, 1) == [(ErrorCode.NONE, 0, 0), (ErrorCode.NONE, 1, 2)]


def diverging(client: Client, offset: int, epoch: int, version: int = 12) -> dict[str, Any]:
    """Fetch with the epoch of the last record that was read."""
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "last_fetched_epoch": epoch,
    }
    body = {
        "max_wait_ms": 60_000,
        "min_bytes": 1 << 30,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [partition]}],
    }
    answer = client.ask(ApiKey.FETCH, version, body)
    return part(answer)


def test_a_fetch_after_a_lost_suffix_is_told_where_to_continue() -> None:
    """At once, though there are too few bytes: the reader must not wait for them."""
    client = world_with_three_leaders().client(0)

    told = diverging(client, 4, 0)
    assert told["diverging_epoch"] == {"epoch": 0, "end_offset": 3}
    assert (told["error_code"], told["records"]) == (ErrorCode.NONE, b"")
    assert diverging(client, 4, 1)["diverging_epoch"] == {"epoch": 0, "end_offset": 3}


def test_a_fetch_with_an_epoch_of_the_future_is_out_of_range() -> None:
    """Nothing is known of it."""
    client = world_with_three_leaders().client(0)

    assert diverging(client, 4, 9)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
