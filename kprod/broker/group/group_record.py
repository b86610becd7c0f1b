"""Converts a group to its record in `__consumer_offsets` and back.

Thread-safety: pure functions.
Source: Kafka GroupCoordinatorRecordHelpers.newGroupMetadataRecord and
GroupMetadataManager.replay (4.3.1).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kprod.broker.group.classic_group import Group
from kprod.broker.group.member import NO_ASSIGNMENT, Member
from kprod.broker.group.member_memory import MemberMemory
from kprod.broker.group.state import GroupState

_NO_TIMEOUT = -1


def group_fields(group: Group, assignments: Mapping[str, bytes]) -> dict[str, Any]:
    """Build the fields of a group's record.

    Args:
        group: The group.
        assignments: Assignments by member id; those stored in the members are ignored.

    Returns:
        Fields of `GroupMetadataValue`.
    """
    return {
        "protocol_type": group.protocol_type or "",
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader_id,
        "current_state_timestamp": group.state_since_ms,
        "members": [
            {
                "member_id": it.member_id,
                "group_instance_id": it.instance_id,
                "client_id": it.client_id,
                "client_host": it.client_host,
                "rebalance_timeout": it.rebalance_timeout_ms,
                "session_timeout": it.session_timeout_ms,
                "subscription": it.metadata(group.protocol),
                "assignment": assignments.get(it.member_id, NO_ASSIGNMENT),
            }
            for it in group.members.values()
        ],
    }


def group_of(
    group_id: str,
    fields: Mapping[str, Any],
    timestamp_ms: int,
    memory: MemberMemory | None = None,
) -> Group:
    """Restore a group from its record; its state is Stable with members, else Empty.

    Args:
        group_id: Id of the group.
        fields: Fields of `GroupMetadataValue`.
        timestamp_ms: Wall clock time.
        memory: The memory of all groups' members; None if its members are not counted.

    Returns:
        The group, without timers.
    """
    group = Group(group_id, timestamp_ms, memory)
    group.state_since_ms = fields["current_state_timestamp"]
    group.generation = fields["generation"]
    group.protocol = fields["protocol"]
    group.protocol_type = fields["protocol_type"] or None
    for member in _members(fields):
        group.add(member, fields["protocol_type"])
    if fields["leader"] in group.members:
        group.leader_id = fields["leader"]
    if group.members:
        group.state = GroupState.STABLE
    group.learn_subscriptions()
    return group


def _members(fields: Mapping[str, Any]) -> Iterator[Member]:
    for entry in fields["members"]:
        session_timeout_ms = entry["session_timeout"]
        rebalance_timeout_ms = entry["rebalance_timeout"]
        yield Member(
            entry["member_id"],
            instance_id=entry["group_instance_id"],
            client_id=entry["client_id"],
            client_host=entry["client_host"],
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=(
                session_timeout_ms if rebalance_timeout_ms == _NO_TIMEOUT else rebalance_timeout_ms
            ),
            protocols=((fields["protocol"] or "", entry["subscription"]),),
            assignment=entry["assignment"],
        )
