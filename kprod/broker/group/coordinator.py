"""The group coordinator of a cluster: which broker has which groups, and their shards.

The brokers of an embedded cluster share a process, so there is one coordinator with a shard for
each partition of `__consumer_offsets`; a broker answers for the partitions that it leads.

Invariants.
    Partitions that are added to the topic get no groups until the cluster starts again, as in
    Kafka: a group must not change its partition while its coordinator has it.
    A shard lives as long as one leadership of its partition. A change of leader or leader epoch
    unloads it and loads another from the log.
    A shard is loaded when every in-sync replica has the whole log, so no response tells of a record
    that the next change of leader could lose. Kafka loads at once, and reads committed offsets
    below the high watermark; its SyncGroup may respond with an assignment that is lost.

Thread-safety: the broker's thread.
Source: Kafka GroupCoordinatorService (4.3.1).
"""

import uuid
from collections.abc import Iterator

from kprod._core.java_hash import java_hash
from kprod.broker.group.classic_group import Group
from kprod.broker.group.committing import delete_offsets
from kprod.broker.group.context import CoordinatorContext
from kprod.broker.group.leaving import expire, remove, stop
from kprod.broker.group.member_memory import MemberMemory
from kprod.broker.group.offset_expiry import expire_offsets
from kprod.broker.group.rebalance import prepare
from kprod.broker.group.sessions import renew
from kprod.broker.group.shard import CoordinatorShard, Waiting
from kprod.broker.group.state import GroupState
from kprod.broker.group.view import GroupView
from kprod.broker.internal_topics import OFFSETS_SETTINGS, OFFSETS_TOPIC
from kprod.broker.rejection import Rejected
from kprod.broker.replication import NO_LEADER, Partition
from kprod.broker.topic import Topic
from kprod.protocol.error_table import ErrorCode

_REPLICATION_FACTOR_MAX = 3
_INT32_MIN = -(1 << 31)
CLIENT_NAME_BYTES_MAX = 0x7FFF - len(f"-{uuid.UUID(int=0)}")
"""Limit of the name in front of a member id, since the whole id is a string of the protocol."""
_MEMBER_ID_SPACE = uuid.UUID("6b70726f-6400-4000-8000-6d656d626572")


class GroupCoordinator:
    """All groups of a cluster."""

    __slots__ = (
        "_context",
        "_expires",
        "_first_timestamp_ms",
        "_member_count",
        "_memory",
        "_partition_count",
        "_shards",
        "_waiting",
    )

    def __init__(self, context: CoordinatorContext) -> None:
        """Coordinate nothing yet.

        Args:
            context: The cluster.
        """
        self._context = context
        self._waiting = Waiting(context)
        self._memory = MemberMemory(context.config.group_metadata_bytes_max)
        self._shards: dict[int, CoordinatorShard] = {}
        # Ids come from a counter, so that a simulation repeats itself, and from the time of the
        # start, so that a cluster that starts again on its directory makes others.
        self._first_timestamp_ms = context.clock.timestamp_ms()
        self._member_count = 0
        self._partition_count = 0
        self._expires = False

    @property
    def waiting(self) -> Waiting:
        """Delayed operations of all groups."""
        return self._waiting

    def offsets_topic(self) -> Topic:
        """`__consumer_offsets`, made if it is not there.

        Returns:
            The topic, all its partitions loaded.

        Raises:
            Rejected: It cannot be made.
        """
        topic = self._context.topics.get(OFFSETS_TOPIC)
        if topic is None:
            topic = self._context.create_topic(
                OFFSETS_TOPIC,
                partition_count=self._context.config.offsets_topic_num_partitions,
                replication_factor=min(_REPLICATION_FACTOR_MAX, len(self._context.topics.node_ids)),
                overrides=dict(OFFSETS_SETTINGS),
            )
        if not self._partition_count:
            self.start()  # it may be there because a client has created it
        return topic

    def start(self) -> None:
        """Load every shard whose partition has a leader, if the topic exists."""
        topic = self._context.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return
        self._partition_count = len(topic.partitions)
        for partition in topic.partitions:
            self.on_partition_changed(partition)
        if not self._expires:
            self._expires = True
            self._expire_later()

    def partition_of(self, group_id: str) -> Partition:
        """The partition of a group; `__consumer_offsets` is made if it is not there.

        Returns:
            The partition, its shard loading or loaded if it has a leader.

        Raises:
            Rejected: It cannot be made.
        """
        topic = self.offsets_topic()
        return topic.partitions[partition_index(group_id, self._partition_count)]

    def shard(self, node_id: int, group_id: str) -> CoordinatorShard:
        """The shard of a group, on the broker that was asked.

        Args:
            node_id: The broker.
            group_id: The group.

        Returns:
            The shard, loaded.

        Raises:
            Rejected: With NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        topic = self._context.topics.get(OFFSETS_TOPIC)
        if topic is None or not self._partition_count:
            raise Rejected(ErrorCode.NOT_COORDINATOR)
        index = partition_index(group_id, self._partition_count)
        shard = self._shards.get(index)
        if shard is None or topic.partitions[index].leader_id != node_id:
            raise Rejected(ErrorCode.NOT_COORDINATOR)
        if not shard.is_loaded:
            raise Rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def shards_of(self, node_id: int) -> Iterator[CoordinatorShard]:
        """The shards of one broker, also those that are not loaded yet."""
        return (it for it in self._shards.values() if it.leadership[0] == node_id)

    def on_partition_changed(self, partition: Partition) -> None:
        """See whether a partition of `__consumer_offsets` has another leader, or can be loaded."""
        index = partition.name.partition
        leadership = (partition.leader_id, partition.leader_epoch)
        shard = self._shards.get(index)
        if shard is not None and shard.leadership == leadership:
            self._try_load(shard)
            return
        if shard is not None:
            del self._shards[index]
            shard.unload(lambda group: stop(group, ErrorCode.NOT_COORDINATOR))
        if partition.leader_id != NO_LEADER:
            self._begin(index, partition)

    def on_topic_deleted(self, topic: Topic) -> None:
        """Delete a topic's offsets in all groups; without `__consumer_offsets` there are none."""
        if topic.name == OFFSETS_TOPIC:
            self._partition_count = 0
            for partition in topic.partitions:
                self.on_partition_changed(partition)
            return
        for shard in list(self._shards.values()):
            if shard.is_loaded:
                delete_offsets(shard, shard.offsets.keys_of_topic(topic.name), lambda _: None)

    def views(self) -> list[GroupView]:
        """All groups, by id."""
        views = [
            GroupView.of(group, shard.offsets, shard.leadership[0])
            for shard in self._shards.values()
            for group in shard.groups.values()
        ]
        return sorted(views)

    def view(self, group_id: str) -> GroupView:
        """One group.

        Returns:
            A snapshot of the group.

        Raises:
            Rejected: It is unknown.
        """
        shard, group = self._found(group_id)
        return GroupView.of(group, shard.offsets, shard.leadership[0])

    def expire_member(self, group_id: str, member_id: str) -> None:
        """Let a member's session be over now.

        Args:
            group_id: Id of the group.
            member_id: The member's id or its instance id.

        Raises:
            Rejected: Group or member is unknown.
        """
        shard, group = self._found(group_id)
        member = group.members.get(group.static_members.get(member_id, member_id))
        if member is None:
            raise Rejected(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group_id!r} has no member {member_id!r}; its members are"
                f" {list(group.members)[:10]}",
            )
        remove(shard, group, member)

    def rebalance(self, group_id: str) -> None:
        """Let a group rebalance now, as if a member had asked for it.

        Raises:
            Rejected: It is unknown, or has no members.
        """
        shard, group = self._found(group_id)
        if not group.members:
            raise Rejected(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"cannot rebalance group {group_id!r}: it has no members",
            )
        if group.state is not GroupState.PREPARING:
            prepare(shard, group)

    def _found(self, group_id: str) -> tuple[CoordinatorShard, Group]:
        for shard in self._shards.values():
            if group_id in shard.groups:
                return shard, shard.groups[group_id]
        raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")

    def _begin(self, index: int, partition: Partition) -> None:
        shard = CoordinatorShard(
            self._context,
            partition,
            self._waiting,
            memory=self._memory,
            new_id=self._new_id,
            expire_session=expire,
        )
        self._shards[index] = shard
        loading_ms = self._context.config.coordinator_loading_ms
        if loading_ms:
            self._context.after(loading_ms, lambda: self._end_delay(index, shard))
        else:
            self._end_delay(index, shard)

    def _end_delay(self, index: int, shard: CoordinatorShard) -> None:
        shard.may_load = True
        if self._shards.get(index) is shard:  # or else the leader has changed since
            self._try_load(shard)

    def _try_load(self, shard: CoordinatorShard) -> None:
        if shard.is_loaded or not shard.may_load or not shard.log.is_replicated:
            return
        shard.load()
        for group in list(shard.groups.values()):
            for member in list(group.members.values()):
                renew(shard, group, member)
            if len(group.members) > shard.config.group_max_size:
                prepare(shard, group)

    def _new_id(self, beginning: str) -> str:
        self._member_count += 1
        unique = uuid.uuid5(_MEMBER_ID_SPACE, f"{self._first_timestamp_ms}/{self._member_count}")
        return f"{beginning}-{unique}"

    def _expire_later(self) -> None:
        self._context.after(self._context.config.offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> None:
        for shard in list(self._shards.values()):
            if shard.is_loaded:
                expire_offsets(shard)
        self._expire_later()


def partition_index(group_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` that a group is in.

    Args:
        group_id: Any text.
        partition_count: At least 1.

    Returns:
        Java's hash code of the text, its absolute value (0 for −2³¹), by the number of partitions.
    """
    return _absolute(java_hash(group_id)) % partition_count


def _absolute(code: int) -> int:
    return 0 if code == _INT32_MIN else abs(code)
