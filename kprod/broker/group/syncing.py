"""SyncGroup: members get their assignment; the leader sends all assignments.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager.classicGroupSyncToClassicGroup (4.3.1).
"""

from kprod.broker.group.answers import sync_rejected, synced
from kprod.broker.group.classic_group import Group
from kprod.broker.group.rebalance import note_sync, prepare, propagate
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import Event, GroupState, rejection
from kprod.broker.rejection import Rejected
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode


def sync(shard: CoordinatorShard, request: Request) -> None:
    """Process a SyncGroup request: respond or park it.

    Args:
        shard: The loaded shard that has the group.
        request: A request of version 0 to 5.

    Raises:
        Rejected: Group, member, generation, protocol or state are invalid.
    """
    body = request.body
    group = shard.groups.get(body["group_id"])
    if group is None:
        raise Rejected(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(body["member_id"], body["group_instance_id"])
    group.check_generation(body["generation_id"])
    _check_protocol(group, request)
    code = rejection(Event.SYNC, group.state)
    if code != ErrorCode.NONE:
        raise Rejected(code)
    if group.state is GroupState.STABLE:
        note_sync(shard, group, member.member_id)
        request.answer(synced(group, member))
        return
    displaced, member.parked_sync = member.parked_sync, request
    if displaced is not None:
        # Kafka never responds to the earlier sync; here every request gets a response.
        displaced.answer(sync_rejected(ErrorCode.REBALANCE_IN_PROGRESS))
    note_sync(shard, group, member.member_id)
    if member.member_id == group.leader_id:
        _write_assignments(shard, group, request)


def _check_protocol(group: Group, request: Request) -> None:
    wanted = (
        (request.body["protocol_type"], group.protocol_type),
        (request.body["protocol_name"], group.protocol),
    )
    if any(asked not in {None, known} for asked, known in wanted):
        raise Rejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _write_assignments(shard: CoordinatorShard, group: Group, request: Request) -> None:
    brought = {it["member_id"]: bytes(it["assignment"]) for it in request.body["assignments"]}
    assignments = {member_id: brought.get(member_id, b"") for member_id in group.members}
    generation = group.generation

    def written(code: int, _: int) -> None:
        # A member may have joined while the record was being replicated.
        if group.state is not GroupState.COMPLETING or group.generation != generation:
            return
        if code == ErrorCode.NONE:
            group.assign(assignments)
            shard.move(group, GroupState.STABLE)
            propagate(shard, group, ErrorCode.NONE)
        else:
            group.assign({})
            propagate(shard, group, code)
            prepare(shard, group)

    shard.write_group(group, written, assignments)
