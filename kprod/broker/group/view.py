"""What a test is shown of a group.

Thread-safety: immutable.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kprod.broker.group.classic_group import Group
from kprod.broker.group.offsets import OffsetTable
from kprod.broker.group.subscription import assigned_partitions
from kprod.model import TopicPartition


class MemberView(NamedTuple):
    """A member as it was when it was asked for.

    Attributes:
        member_id: The coordinator's name for it.
        instance_id: Of a static member; else None.
        client_id: As the client calls itself.
        client_host: Its address behind a slash.
        assignment: Partitions by topic; None if the bytes are not a consumer's.
        assignment_bytes: The assignment as the leader brought it.
        is_joining: Whether its join waits.
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
    """A group as it was when it was asked for.

    Attributes:
        group_id: Its name.
        state: `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.
        generation: 0 before the first.
        protocol_type: None for a group that only has offsets.
        protocol: Chosen for this generation.
        leader_id: The member that assigns.
        coordinator: Id of the broker that coordinates it.
        members: In order of joining.
        offsets: By topic and partition.
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
        """What a group looks like now."""
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
