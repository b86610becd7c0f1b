"""The state of a group, as tests see it.

Thread-safety: immutable.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kprod.broker.group.classic_group import Group
from kprod.broker.group.offsets import OffsetTable
from kprod.broker.group.subscription import assigned_partitions
from kprod.model import TopicPartition


class MemberView(NamedTuple):
    """A snapshot of a member.

    Attributes:
        member_id: Id that the coordinator assigned.
        instance_id: Instance id of a static member; None for a dynamic one.
        client_id: Client id of its last join.
        client_host: The client's address with a leading slash.
        assignment: Partitions by topic; None if the bytes are not a consumer's assignment.
        assignment_bytes: The assignment as the leader sent it.
        is_joining: Whether its join is parked.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, list[int]] | None
    assignment_bytes: bytes
    is_joining: bool


class OffsetView(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int


class GroupView(NamedTuple):
    """A snapshot of a group.

    Attributes:
        group_id: The group's id.
        state: `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.
        generation: Number of the generation; 0 before the first.
        protocol_type: None for a group that only has offsets.
        protocol: The protocol chosen for this generation.
        leader_id: Id of the member that computes the assignment.
        coordinator: Id of the coordinating broker.
        members: Members in order of joining.
        offsets: Committed offsets by topic and partition.
    """

    group_id: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader_id: str | None
    coordinator: int
    members: tuple[MemberView, ...]
    offsets: Mapping[TopicPartition, OffsetView]

    @classmethod
    def of(cls, group: Group, offsets: OffsetTable, coordinator: int) -> "GroupView":
        """Describe a group."""
        return cls(
            group.group_id,
            group.state.value,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader_id,
            coordinator,
            tuple(
                MemberView(
                    it.member_id,
                    it.instance_id,
                    it.client_id,
                    it.client_host,
                    assigned_partitions(it.assignment),
                    it.assignment,
                    it.parked_join is not None,
                )
                for it in group.members.values()
            ),
            {
                TopicPartition(*place): OffsetView(
                    it.offset, it.leader_epoch, it.metadata, it.commit_timestamp_ms
                )
                for place, it in offsets.of_group(group.group_id).items()
            },
        )
