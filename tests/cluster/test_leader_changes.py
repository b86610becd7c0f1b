"""Two snapshots of a cluster, and the report of their difference."""

from types import MappingProxyType

from kprod.cluster.leader_changes import LeaderChange, leader_changes
from kprod.cluster.snapshot import ClusterSnapshot, TopicSnapshot


def _metadata_generation(**topics: tuple[int, ...]) -> ClusterSnapshot:
    return ClusterSnapshot(
        topics=MappingProxyType(
            {name: TopicSnapshot(name=name, leader_ids=leaders) for name, leaders in topics.items()}
        )
    )


def test_partitions_are_gathered_by_where_they_went() -> None:
    """One change for each pair of nodes; −1 is nobody."""
    before = _metadata_generation(orders=(1, 1, 2, 2, -1))
    after = _metadata_generation(orders=(2, 1, 3, 3, 1))
    assert leader_changes(before, after) == [
        LeaderChange("orders", (0,), 1, 2),
        LeaderChange("orders", (2, 3), 2, 3),
        LeaderChange("orders", (4,), -1, 1),
    ]


def test_a_partition_in_one_snapshot_only_has_not_changed() -> None:
    """New and forgotten topics, new partitions."""
    before = _metadata_generation(orders=(1,), forgotten=(1,))
    after = _metadata_generation(orders=(1, 2), new=(2,))
    assert leader_changes(before, after) == []
    assert leader_changes(before, before) == []
