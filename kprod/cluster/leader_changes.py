"""Describes changes of leaders as text for the log.

Thread-safety: a pure function of immutable values.
"""

from typing import NamedTuple

from kprod.cluster.snapshot import ClusterSnapshot


class LeaderChange(NamedTuple):
    """Partitions of one topic that went from one node to another.

    Attributes:
        topic: The topic's name.
        partitions: Ascending.
        from_id: The leader before; −1 if there was none.
        to_id: The leader now.
    """

    topic: str
    partitions: tuple[int, ...]
    from_id: int
    to_id: int


def leader_changes(before: ClusterSnapshot, after: ClusterSnapshot) -> list[LeaderChange]:
    """Compare two pictures of a cluster.

    Args:
        before: The older.
        after: The newer.

    Returns:
        The changes of topics and partitions in both snapshots, ordered by topic, then by nodes.
    """
    changes: list[LeaderChange] = []
    for name in after.topics_changed_since(before):
        older, topic = before.topics.get(name), after.topics[name]
        if older is None or older.leader_ids == topic.leader_ids:
            continue
        moved: dict[tuple[int, int], list[int]] = {}
        pairs = zip(older.leader_ids, topic.leader_ids, strict=False)  # partitions may be new
        for partition, (from_id, to_id) in enumerate(pairs):
            if from_id != to_id:
                moved.setdefault((from_id, to_id), []).append(partition)
        changes += [
            LeaderChange(name, tuple(partitions), *nodes) for nodes, partitions in moved.items()
        ]
    return changes
