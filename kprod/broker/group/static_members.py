"""Handles a static member that returns: its instance id stays, its member id changes.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin (4.3.1); KIP-345,
KIP-814 for `skip_assignment`.
"""

from kprod.broker.group import sessions
from kprod.broker.group.answers import (
    NO_MEMBER_ID,
    answer_join,
    answer_sync,
    join_rejected,
    joined,
    reject_join,
    sync_rejected,
)
from kprod.broker.group.classic_group import Group
from kprod.broker.group.join_request import update_member
from kprod.broker.group.member import Member
from kprod.broker.group.offsets_log import NOT_IN_THE_LOG
from kprod.broker.group.rebalance import prepare_or_complete
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import GroupState
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_THAT_SKIPS_ASSIGNMENTS = 9


def replace_static(
    shard: CoordinatorShard, group: Group, request: Request, *, old_id: str, new_id: str
) -> None:
    """Replace the member that had an instance id by the one that joins.

    In Stable the other members are not affected, unless the group would choose another protocol.

    Args:
        shard: The shard that holds the group.
        group: The group, which has the instance id.
        request: The join request, without a member id.
        old_id: Previous member id of the instance id.
        new_id: New member id of the instance id.
    """
    old_leader_id = group.leader_id
    old = group.members[old_id]
    _fence(group, old)
    new = old.renamed(new_id)
    group.replace(old, new)
    sessions.renew(shard, group, new)
    update_member(group, new, request)
    if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol:
        prepare_or_complete(shard, group)
        return

    def written(code: int, offset: int) -> None:
        if new.parked_join is not request:
            return  # a join phase, another replacement, a removal or a move has answered it
        if code == ErrorCode.NONE:
            _answer(group, new, request, old_leader_id)
        else:
            _revert(shard, group, new, old)
            if offset != NOT_IN_THE_LOG:
                # A replay would find the replacement. Kafka leaves it there, so that the old id is
                # valid until the coordinator moves and fenced from then on.
                shard.write_group(group, lambda *_: None)
            request.answer(join_rejected(request, code, NO_MEMBER_ID))

    shard.write_group(group, written)


def _fence(group: Group, old: Member) -> None:
    """Respond to the parked requests of the old id."""
    reject_join(group, old, ErrorCode.FENCED_INSTANCE_ID)
    answer_sync(old, sync_rejected(ErrorCode.FENCED_INSTANCE_ID))
    sessions.end(old)


def _answer(group: Group, member: Member, request: Request, old_leader_id: str | None) -> None:
    skips = request.api_version >= _FIRST_VERSION_THAT_SKIPS_ASSIGNMENTS
    is_leader = skips and member.member_id == group.leader_id
    body = joined(group, member, with_members=is_leader, skip_assignment=is_leader)
    if not skips:
        # A leader of these versions would assign again; the response names its old id.
        body["leader"] = old_leader_id or ""
    answer_join(group, member, body)


def _revert(shard: CoordinatorShard, group: Group, new: Member, old: Member) -> None:
    """Undo a replacement whose record could not be written."""
    group.park_join(new, None)
    group.update(new, old.protocols)
    sessions.end(new)
    group.replace(new, old)
    sessions.renew(shard, group, old)
