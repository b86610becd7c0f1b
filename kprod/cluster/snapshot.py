# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Metadata of the cluster at one moment, as values that never change.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Each response creates a new snapshot that shares unchanged parts with the old one. Readers take the
reference once and see a consistent state, without a lock.

Size. A topic keeps one tuple per property, not one object per partition: ten thousand partitions
are five tuples of pointers to integers and to replica lists that are made once and shared.

Invariants.
    A partition's leader epoch never falls while the topic's id stays the same.
    `leader_of` names a node only if its address is known.

Thread-safety: immutable.
Source: Kafka's MetadataSnapshot and Cluster (clients 4.3.1); KIP-320 for leader epochs, KIP-516 for
topic ids.
"""

import operator
import uuid
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kprod.model import Node

NO_LEADER = -1
NO_EPOCH = -1
NO_TOPIC_ID = uuid.UUID(int=0)


class PartitionSnapshot(NamedTuple):
    """One partition, made on demand.

    Attributes:
        partition: Partition number, from 0.
        leader_id: −1 when it has none.
        leader_epoch: −1 when the broker did not say.
        replicas: Node ids of the replicas, the preferred leader first.
        in_sync_replicas: Node ids of the in-sync replicas.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


def are_other_topics(one: uuid.UUID, other: uuid.UUID) -> bool:
    """Whether two ids belong to different topics, although both were found by the same name.

    Args:
        one: A topic's id; all zero if it is unknown.
        other: The same of the other one.

    Returns:
        True if both ids are known and differ: the topic was deleted and created again.
    """
    return one != other and NO_TOPIC_ID not in {one, other}


class LeaderHint(NamedTuple):
    """The leader of a partition, as a Produce or Fetch response names it (KIP-951).

    Attributes:
        topic: The topic's name.
        partition: Index of the partition.
        leader_id: Node id of the leader.
        leader_epoch: Its epoch.
        topic_id: Id of the topic that was asked for; all zero if the request named no id.
    """

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int
    topic_id: uuid.UUID = NO_TOPIC_ID


class TopicSnapshot(NamedTuple):
    """One topic; position in each tuple is the partition.

    Attributes:
        name: The topic.
        topic_id: The topic's id; all zero if the broker is too old to return it.
        is_internal: The broker keeps it for itself.
        leader_ids: −1 for a partition without leader.
        leader_epochs: −1 where unknown.
        replicas: Node ids per partition.
        in_sync_replicas: Node ids per partition.
    """

    name: str
    topic_id: uuid.UUID = NO_TOPIC_ID
    is_internal: bool = False
    leader_ids: tuple[int, ...] = ()
    leader_epochs: tuple[int, ...] = ()
    replicas: tuple[tuple[int, ...], ...] = ()
    in_sync_replicas: tuple[tuple[int, ...], ...] = ()

    @property
    def partition_count(self) -> int:
        """Number of partitions, including those without a leader."""
        return len(self.leader_ids)

    def partition(self, partition: int) -> PartitionSnapshot:
        """Combine what metadata says of one partition.

        Args:
            partition: 0-based, below `partition_count`.

        Returns:
            Its properties.
        """
        return PartitionSnapshot(
            partition,
            self.leader_ids[partition],
            self.leader_epochs[partition],
            self.replicas[partition],
            self.in_sync_replicas[partition],
        )

    def after(self, older: "TopicSnapshot | None") -> "TopicSnapshot":
        """Keep entries of the older snapshot that have a higher leader epoch.

        A broker that lags behind may respond with an old leader, which its epoch shows. When a
        topic is deleted and created again (with another id), epochs start again.

        Args:
            older: The snapshot that this one replaces.

        Returns:
            This snapshot, with the older one's entry wherever its epoch is higher.
        """
        if older is None or are_other_topics(self.topic_id, older.topic_id):
            return self
        if all(map(operator.le, older.leader_epochs, self.leader_epochs)):
            return older if older == self else self
        return self._patched(
            older.partition(partition)
            for partition, (old, new) in enumerate(
                zip(older.leader_epochs, self.leader_epochs, strict=False)
            )
            if old > new != NO_EPOCH
        )

    def with_leaders(self, hints: Iterable[LeaderHint]) -> "TopicSnapshot":
        """Apply leaders with a newer epoch than the known ones.

        Args:
            hints: Leaders of this topic's partitions; those for unknown partitions, or with an
                epoch that is not higher than the known one, are ignored.

        Returns:
            The topic with the new leaders, itself if there are none.
        """
        newer = [
            self.partition(hint.partition)._replace(
                leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
            )
            for hint in hints
            if 0 <= hint.partition < self.partition_count
            and hint.leader_epoch > self.leader_epochs[hint.partition]
        ]
        return self._patched(newer) if newer else self

    def without_leaders(self) -> "TopicSnapshot":
        """Forget leaders and epochs, keep the number of partitions."""
        count = self.partition_count
        return self._replace(leader_ids=(NO_LEADER,) * count, leader_epochs=(NO_EPOCH,) * count)

    def _patched(self, partitions: Iterable[PartitionSnapshot]) -> "TopicSnapshot":
        leader_ids, leader_epochs = list(self.leader_ids), list(self.leader_epochs)
        replicas, in_sync_replicas = list(self.replicas), list(self.in_sync_replicas)
        for entry in partitions:
            leader_ids[entry.partition] = entry.leader_id
            leader_epochs[entry.partition] = entry.leader_epoch
            replicas[entry.partition] = entry.replicas
            in_sync_replicas[entry.partition] = entry.in_sync_replicas
        return self._replace(
            leader_ids=tuple(leader_ids),
            leader_epochs=tuple(leader_epochs),
            replicas=tuple(replicas),
            in_sync_replicas=tuple(in_sync_replicas),
        )


class ClusterSnapshot(NamedTuple):
    """The cluster: nodes by id, topics by name.

    Attributes:
        nodes: The brokers by id. Before the first response they are the bootstrap addresses, with
            negative ids.
        topics: The requested topics that exist.
        cluster_id: The cluster's id; None if the broker is too old to return it.
        controller_id: −1 when unknown.
        is_bootstrap: True while `nodes` are addresses from the configuration, not a response.
    """

    nodes: Mapping[int, Node] = MappingProxyType({})
    topics: Mapping[str, TopicSnapshot] = MappingProxyType({})
    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    is_bootstrap: bool = False

    def partition_count(self, topic: str) -> int | None:
        """Return a topic's number of partitions; None if the topic is unknown.

        Args:
            topic: The topic's name.

        Returns:
            At least 1, or None.
        """
        entry = self.topics.get(topic)
        return None if entry is None else entry.partition_count

    def leader_of(self, topic: str, partition: int) -> Node | None:
        """Return the leader of a partition.

        Args:
            topic: The topic's name.
            partition: 0-based; any integer.

        Returns:
            The node; None when topic, partition, leader or the leader's address is unknown.
        """
        entry = self.topics.get(topic)
        if entry is None or not 0 <= partition < len(entry.leader_ids):
            return None
        leader_id = entry.leader_ids[partition]
        # Bootstrap addresses have negative ids too, and lead nothing.
        return self.nodes.get(leader_id) if leader_id >= 0 else None

    def leader_epoch_of(self, topic: str, partition: int) -> int:
        """The leader's reign.

        Args:
            topic: The topic's name.
            partition: 0-based; any integer.

        Returns:
            The epoch; −1 when unknown.
        """
        entry = self.topics.get(topic)
        if entry is None or not 0 <= partition < entry.partition_count:
            return NO_EPOCH
        return entry.leader_epochs[partition]

    def all_leaders(self) -> set[int]:
        """Return the leaders of all partitions here.

        Returns:
            Node ids.
        """
        leaders: set[int] = set()
        for topic in self.topics.values():
            leaders.update(topic.leader_ids)
        leaders.discard(NO_LEADER)
        return leaders

    def topic_id_of(self, topic: str) -> uuid.UUID:
        """The topic's id.

        Args:
            topic: The topic's name.

        Returns:
            The id; all zero when unknown.
        """
        entry = self.topics.get(topic)
        return NO_TOPIC_ID if entry is None else entry.topic_id

    def topics_changed_since(self, older: "ClusterSnapshot") -> list[str]:
        """Find the topics that are new or have changed since another snapshot.

        A topic has changed if its entry is another object; the contents are not compared.

        Args:
            older: The snapshot to compare with.

        Returns:
            Names of those topics, all of them in this snapshot.
        """
        if self is older:
            return []
        return [name for name, topic in self.topics.items() if older.topics.get(name) is not topic]

    def with_hints(self, hints: Iterable[LeaderHint], nodes: Iterable[Node]) -> "ClusterSnapshot":
        """Apply newer leaders, and their addresses.

        Args:
            hints: Leaders of partitions; one whose node has no known address changes nothing.
            nodes: Addresses from the same response.

        Returns:
            The new snapshot; this one itself when nothing in it changed.
        """
        all_nodes = {**self.nodes, **{node.node_id: node for node in nodes}}
        by_topic: dict[str, list[LeaderHint]] = {}
        for hint in hints:
            topic = self.topics.get(hint.topic)
            if topic is None or hint.leader_id < 0 or hint.leader_id not in all_nodes:
                continue
            if are_other_topics(topic.topic_id, hint.topic_id):
                continue  # its epochs would outlast those of the topic that was made in its place
            by_topic.setdefault(hint.topic, []).append(hint)
        topics = dict(self.topics)
        for name, topic_hints in by_topic.items():
            topics[name] = topics[name].with_leaders(topic_hints)
        if all(topics[name] is self.topics[name] for name in by_topic):
            return self
        return self._replace(nodes=MappingProxyType(all_nodes), topics=MappingProxyType(topics))

    def rebootstrapped(self, nodes: Iterable[Node]) -> "ClusterSnapshot":
        """Start again from configured addresses.

        Partition counts are kept, so that callers who choose a partition need not wait. Leaders and
        epochs are dropped: the bootstrap addresses may lead to another cluster now.

        Args:
            nodes: Under negative ids.

        Returns:
            The new snapshot.
        """
        return ClusterSnapshot(
            nodes=MappingProxyType({node.node_id: node for node in nodes}),
            topics=MappingProxyType(
                {name: topic.without_leaders() for name, topic in self.topics.items()}
            ),
            is_bootstrap=True,
        )
