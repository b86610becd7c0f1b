"""Immutable pictures of the cluster."""

import sys
from uuid import UUID

import pytest

from kprod.cluster.metadata_response import read_response
from kprod.cluster.snapshot import (
    NO_TOPIC_ID,
    ClusterSnapshot,
    LeaderHint,
    PartitionSnapshot,
    TopicSnapshot,
)
from kprod.model import Node
from tests.cluster.bodies import metadata_response, topic_entry


def topic(*leaders: tuple[int, int], topic_id: int = 0, name: str = "orders") -> TopicSnapshot:
    """A topic as a response gives it."""
    entry = topic_entry(name, leaders, topic_id=topic_id)
    return read_response(metadata_response(entry)).topics[name]


def cluster(*topics: TopicSnapshot, nodes: tuple[int, ...] = (1, 2, 3)) -> ClusterSnapshot:
    """A cluster of these topics."""
    return ClusterSnapshot(
        nodes={node_id: Node(node_id, f"host-{node_id}", 9000 + node_id) for node_id in nodes},
        topics={entry.name: entry for entry in topics},
    )


def test_lookups() -> None:
    """Leader, epoch, count and id of known topics."""
    snapshot = cluster(topic((1, 4), (2, 6), topic_id=5))

    assert snapshot.leader_of("orders", 1) == Node(2, "host-2", 9002)
    assert snapshot.leader_epoch_of("orders", 1) == 6
    assert snapshot.partition_count("orders") == 2
    assert snapshot.topic_id_of("orders").int == 5
    assert snapshot.topics["orders"].partition(0) == PartitionSnapshot(0, 1, 4, (1, 2, 3), (1, 2))


@pytest.mark.parametrize(("name", "partition"), [("other", 0), ("orders", -1), ("orders", 2)])
def test_lookups_of_unknown_names(name: str, partition: int) -> None:
    """None, −1 or a zero id, never an exception and never another partition."""
    snapshot = cluster(topic((1, 4), (2, 6)))

    assert snapshot.leader_of(name, partition) is None
    assert snapshot.leader_epoch_of(name, partition) == -1
    assert snapshot.partition_count("other") is None
    assert snapshot.topic_id_of("other") == NO_TOPIC_ID


def test_a_leader_without_address_is_no_leader() -> None:
    """A leader that is not among the brokers cannot be connected to."""
    assert cluster(topic((9, 4))).leader_of("orders", 0) is None


def test_an_older_epoch_does_not_win() -> None:
    """A broker that lags names a leader that was replaced: the newest reign counts."""
    older = topic((1, 5), (1, 5), (1, 5))
    newer = topic((2, 6), (2, 4), (2, -1)).after(older)

    assert newer.leader_ids == (2, 1, 2)
    assert newer.leader_epochs == (6, 5, -1)


def test_a_topic_made_again_begins_with_low_epochs() -> None:
    """Another topic id means another topic under the same name."""
    older = topic((1, 50), topic_id=1)

    assert topic((2, 0), topic_id=2).after(older).leader_epochs == (0,)
    assert topic((2, 0), topic_id=0).after(older).leader_epochs == (50,)


def test_partitions_may_come_and_go() -> None:
    """A topic that grew or shrank is compared as far as both go."""
    assert topic((1, 5), (2, 5)).after(topic((1, 4))).leader_epochs == (5, 5)
    assert topic((1, 3)).after(topic((2, 4), (2, 4))).leader_ids == (2,)


def test_the_same_answer_keeps_the_same_object() -> None:
    """Unchanged parts are shared, not copied."""
    older = topic((1, 5), (2, 5))

    assert topic((1, 5), (2, 5)).after(older) is older


def test_hints_with_a_higher_epoch_are_taken() -> None:
    """Only newer leaders of known partitions with a known address change anything."""
    snapshot = cluster(topic((1, 5), (1, 5), (1, 5), (1, 5)))

    hinted = snapshot.with_hints(
        [
            LeaderHint("orders", 0, 2, 6),
            LeaderHint("orders", 1, 2, 5),
            LeaderHint("orders", 2, 7, 6),
            LeaderHint("orders", 3, 8, 6),
            LeaderHint("orders", 4, 2, 6),
            LeaderHint("other", 0, 2, 6),
        ],
        [Node(7, "new", 1)],
    )

    assert hinted.topics["orders"].leader_ids == (2, 1, 7, 1)
    assert hinted.leader_of("orders", 2) == Node(7, "new", 1)
    assert snapshot.topics["orders"].leader_ids == (1, 1, 1, 1)


def test_hints_of_a_deleted_topic_are_ignored() -> None:
    """The epochs of a topic of the same name would outlast the new one's, which begin at 0."""
    made = cluster(topic((1, 0), topic_id=2))

    assert made.with_hints([LeaderHint("orders", 0, 2, 7, UUID(int=1))], []) is made
    for topic_id in (UUID(int=2), NO_TOPIC_ID):
        hinted = made.with_hints([LeaderHint("orders", 0, 2, 7, topic_id)], [])
        assert hinted.topics["orders"].leader_ids == (2,)


def test_hints_that_say_nothing_new_change_nothing() -> None:
    """The snapshot stays the same object, so that no one looks at it again."""
    snapshot = cluster(topic((1, 5)))

    assert snapshot.with_hints([LeaderHint("orders", 0, 2, 5)], []) is snapshot


def test_rebootstrap_keeps_partition_counts() -> None:
    """Leaders and their epochs go, so that another cluster's lower epochs are believed."""
    snapshot = cluster(topic((1, 5), (2, 5))).rebootstrapped([Node(-1, "first", 9)])

    assert snapshot.is_bootstrap
    assert snapshot.partition_count("orders") == 2
    assert snapshot.leader_of("orders", 0) is None
    assert topic((1, 0), (1, 0)).after(snapshot.topics["orders"]).leader_ids == (1, 1)


def test_a_snapshot_cannot_be_changed() -> None:
    """Readers in other threads hold it without a lock."""
    snapshot = cluster(topic((1, 5)))

    with pytest.raises(AttributeError):
        snapshot.controller_id = 3  # type: ignore[misc]


def test_ten_thousand_partitions_are_lean() -> None:
    """Five tuples of shared values: some 40 bytes a partition, and no object per partition."""
    wide = topic(*[(1 + index % 3, 7) for index in range(10_000)])

    own_bytes = sum(
        sys.getsizeof(values)
        for values in (wide.leader_ids, wide.leader_epochs, wide.replicas, wide.in_sync_replicas)
    )
    assert own_bytes < 40 * 10_000
    assert len({id(replicas) for replicas in wide.replicas + wide.in_sync_replicas}) <= 2
