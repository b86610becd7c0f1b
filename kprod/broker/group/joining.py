"""JoinGroup: new members, members that come again, and what each state makes of them.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager.classicGroupJoinToClassicGroup (4.3.1); KIP-62, KIP-345, KIP-394.
"""

from kprod.broker.group import sessions
from kprod.broker.group.answers import NO_MEMBER_ID, join_rejected, joined
from kprod.broker.group.classic_group import Group
from kprod.broker.group.join_request import new_member, protocols_of, update_member
from kprod.broker.group.leaving import drop, forget_group
from kprod.broker.group.member import metadata_bytes
from kprod.broker.group.offsets_log import NOT_IN_THE_LOG
from kprod.broker.group.rebalance import prepare_or_complete
from kprod.broker.group.records import group_key
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import Event, GroupState, rejection
from kprod.broker.group.static_members import replace_static
from kprod.broker.rejection import Rejected
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Timeout of a new member's first join: its client may be gone, and the coordinator cannot know."""

UNUSED_IDS_MAX = 1_000
"""Most ids of a group that were given out and not used; beyond it the oldest is forgotten.

A client joins with its id at once, so these are clients that are gone. Kafka has no such limit:
there an id ends with the session timeout alone, here with whichever comes first.
"""

_FIRST_VERSION_THAT_KNOWS_ITS_ID = 4


def join(shard: CoordinatorShard, request: Request) -> None:
    """Handle a JoinGroup request: respond, or park it.

    Args:
        shard: The loaded shard that holds the group.
        request: The JoinGroup request, version 0 to 9.
    """
    body = request.body
    member_id: str = body["member_id"]
    is_unknown = member_id == NO_MEMBER_ID
    group = shard.groups.get(body["group_id"])
    if group is None and not is_unknown:
        _reject(request, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        return
    is_new_group = group is None
    group = shard.group_or_new(body["group_id"])
    try:
        _take(shard, group, request)
    except Rejected as rejected:
        _reject(request, rejected.code, member_id)
    if is_new_group:
        # Written even if the join is rejected, and without the member, as Kafka does.
        empty = Group(group.group_id, shard.timestamp_ms)

        def written(code: int, offset: int) -> None:
            if code != ErrorCode.NONE and group.state is not GroupState.DEAD:
                _undo_group(shard, group, code, is_in_log=offset != NOT_IN_THE_LOG)
                _reject(request, code, NO_MEMBER_ID)

        shard.write_group(empty, written)


def _take(shard: CoordinatorShard, group: Group, request: Request) -> None:
    body = request.body
    member_id: str = body["member_id"]
    has_room = _has_room(group, member_id, shard.config.group_max_size)
    if not has_room or not shard.memory.has_room(_growth_bytes(group, request)):
        drop(group, member_id)
        _reject(request, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
        return
    code = rejection(Event.JOIN_NEW, group.state)
    if code == ErrorCode.NONE and not group.supports(body["protocol_type"], protocols_of(request)):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code != ErrorCode.NONE:
        raise Rejected(code)
    if member_id == NO_MEMBER_ID:
        _join_new(shard, group, request)
    else:
        _join_known(shard, group, request)


def _join_new(shard: CoordinatorShard, group: Group, request: Request) -> None:
    instance_id = request.body["group_instance_id"]
    member_id = shard.new_id(request.client_id or "" if instance_id is None else instance_id)
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            _add(shard, group, request, member_id)
        else:
            replace_static(shard, group, request, old_id=known, new_id=member_id)
    elif request.api_version >= _FIRST_VERSION_THAT_KNOWS_ITS_ID:
        if len(group.pending_joins) >= UNUSED_IDS_MAX:
            drop(group, next(iter(group.pending_joins)))
        group.pending_joins[member_id] = sessions.watched(
            shard, group, member_id, delay_ms=request.body["session_timeout_ms"]
        )
        _reject(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(shard, group, request, member_id)


def _join_known(shard: CoordinatorShard, group: Group, request: Request) -> None:
    member_id: str = request.body["member_id"]
    instance_id = request.body["group_instance_id"]
    if member_id in group.pending_joins:
        if instance_id is not None:
            # Kafka fails inside here: an id is only given out to dynamic members.
            _reject(request, ErrorCode.UNKNOWN_SERVER_ERROR, NO_MEMBER_ID)
            return
        _add(shard, group, request, member_id)
        return
    member = group.check_member(member_id, instance_id)
    code = rejection(Event.JOIN_KNOWN, group.state)
    if code != ErrorCode.NONE:
        raise Rejected(code)
    is_leader = member_id == group.leader_id
    must_rebalance = group.state is GroupState.PREPARING or (
        member.protocols != protocols_of(request)
        or (group.state is GroupState.STABLE and is_leader)
    )
    if must_rebalance:
        update_member(group, member, request)
        prepare_or_complete(shard, group)
    else:
        # It may have missed the response to its last join.
        request.answer(joined(group, member, with_members=is_leader))


def _add(shard: CoordinatorShard, group: Group, request: Request, member_id: str) -> None:
    session = group.pending_joins.pop(member_id, None)
    if session is not None:
        session.force_complete()
    member = new_member(request, member_id)
    if group.state is GroupState.PREPARING:
        group.new_member_added = True
    group.add(member, request.body["protocol_type"], request)
    sessions.renew(shard, group, member, timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)
    prepare_or_complete(shard, group)


def _has_room(group: Group, member_id: str, size_max: int) -> bool:
    if group.state in {GroupState.EMPTY, GroupState.DEAD}:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING:
        awaits = member is not None and member.parked_join is not None
        return awaits or group.awaiting_join_count < size_max
    return member is not None or len(group.members) < size_max


def _growth_bytes(group: Group, request: Request) -> int:
    """Return by how much this join makes the metadata of the group's members larger."""
    member = group.members.get(request.body["member_id"])
    before_bytes = 0 if member is None else member.metadata_bytes
    return metadata_bytes(protocols_of(request)) - before_bytes


def _undo_group(shard: CoordinatorShard, group: Group, code: int, *, is_in_log: bool) -> None:
    """Without its record a new group does not exist; a replay must not find the record either."""
    forget_group(shard, group, code)
    if is_in_log:
        shard.log.append([(group_key(group.group_id), None)], lambda *_: None)


def _reject(request: Request, code: int, member_id: str) -> None:
    request.answer(join_rejected(request, code, member_id))
