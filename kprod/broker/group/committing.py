"""OffsetCommit, OffsetDelete and DeleteGroups: change committed offsets on request.

Thread-safety: the broker's thread.
Source: Kafka OffsetMetadataManager: commitOffset, deleteOffsets; ClassicGroup.validateOffsetCommit
(4.3.1).
"""

from collections.abc import Callable, Sequence
from itertools import starmap

from kprod.broker.group import sessions
from kprod.broker.group.classic_group import Group
from kprod.broker.group.leaving import forget_group
from kprod.broker.group.offsets_log import NOT_IN_THE_LOG, Done
from kprod.broker.group.records import (
    LogRecord,
    Offset,
    OffsetKey,
    group_key,
    offset_key,
    offset_record,
)
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import Event, GroupState, rejection
from kprod.broker.rejection import Rejected
from kprod.broker.request import Request
from kprod.protocol.error_table import ErrorCode

Commit = tuple[OffsetKey, Offset]

_FIRST_VERSION_WITH_GROUP_NOT_FOUND = 9


def check_commit(shard: CoordinatorShard, request: Request) -> Group:
    """Check the member, create a simple group if there is none, and renew the member's session.

    Args:
        shard: The shard that holds the group.
        request: The OffsetCommit request.

    Returns:
        The group.

    Raises:
        Rejected: The whole commit is rejected.
    """
    body = request.body
    generation: int = body["generation_id_or_member_epoch"]
    group = shard.groups.get(body["group_id"])
    if group is None:
        if generation >= 0:
            knows_code = request.api_version >= _FIRST_VERSION_WITH_GROUP_NOT_FOUND
            raise Rejected(
                ErrorCode.GROUP_ID_NOT_FOUND if knows_code else ErrorCode.ILLEGAL_GENERATION
            )
        return shard.group_or_new(body["group_id"])
    if generation < 0 and group.state is GroupState.EMPTY:
        return group
    member_id, instance_id = body["member_id"], body["group_instance_id"]
    if generation < 0 and not member_id and instance_id is None:
        _check_state(group, Event.SIMPLE_COMMIT)
        return group
    if group.state is GroupState.DEAD:
        raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member = group.check_member(member_id, instance_id)
    group.check_generation(generation)
    _check_state(group, Event.MEMBER_COMMIT)
    sessions.renew(shard, group, member)
    return group


def commit(
    shard: CoordinatorShard, commits: Sequence[Commit], done: Callable[[int], object]
) -> None:
    """Write offsets; they become visible when they are replicated.

    Args:
        shard: The shard that holds the group.
        commits: The commits, at least one.
        done: Called with the error code.
    """
    number = shard.offsets.begin_commit(key for key, _ in commits)

    def written(code: int, base_offset: int) -> None:
        for index, (key, offset) in enumerate(commits):
            if shard.offsets.end_commit(number, key) and code == ErrorCode.NONE:
                shard.offsets.put(key, offset._replace(log_offset=base_offset + index))
        done(code)

    shard.log.append(list(starmap(offset_record, commits)), written)


def check_offset_delete(shard: CoordinatorShard, group_id: str) -> Group:
    """Check that offsets of a group may be deleted.

    Returns:
        The group.

    Raises:
        Rejected: The group is unknown, or its members are not consumers.
    """
    group = shard.groups.get(group_id)
    if group is None:
        raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not GroupState.EMPTY and not group.is_consumers:
        raise Rejected(ErrorCode.NON_EMPTY_GROUP)
    return group


def delete_offsets(
    shard: CoordinatorShard, keys: Sequence[OffsetKey], done: Callable[[int], object]
) -> None:
    """Write tombstones for offsets, and remove the offsets when those are replicated.

    Args:
        shard: The shard that holds the groups.
        keys: The offsets to delete; keys without an offset are ignored.
        done: Called with the error code.
    """
    known = [key for key in keys if shard.offsets.is_known(key)]
    if not known:
        done(ErrorCode.NONE)
        return

    def written(code: int, _: int) -> None:
        if code == ErrorCode.NONE:
            for key in known:
                shard.offsets.remove(key)
        done(code)

    _append_tombstones(shard, known, [], written)


def delete_group(shard: CoordinatorShard, group_id: str, done: Callable[[int], object]) -> None:
    """Write tombstones for an empty group and its offsets.

    The group ends when the tombstones are in the log. Its offsets are removed when those are
    replicated, since the next change of leader could lose them until then.

    Args:
        shard: The shard that holds the group.
        group_id: Id of the group.
        done: Called with the error code.
    """
    group = shard.groups.get(group_id)
    code = ErrorCode.GROUP_ID_NOT_FOUND
    if group is not None:
        code = rejection(Event.DELETE, group.state)
    if group is None or code != ErrorCode.NONE:
        done(code)
        return
    if shard.offsets.has_pending(group_id):
        done(ErrorCode.NON_EMPTY_GROUP)
        return
    keys = shard.offsets.keys_of_group(group_id)
    group_tombstone: LogRecord = (group_key(group_id), None)

    def written(code: int, offset: int) -> None:
        # After a timeout, too: nothing else would remove the offsets of a group that has ended.
        if offset != NOT_IN_THE_LOG:
            for key in keys:
                shard.offsets.remove(key)
        done(code)

    is_in_log = _append_tombstones(shard, keys, [group_tombstone], written)
    if is_in_log and group.state is not GroupState.DEAD:
        forget_group(shard, group, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _check_state(group: Group, event: Event) -> None:
    code = rejection(event, group.state)
    if code != ErrorCode.NONE:
        raise Rejected(code)


def _append_tombstones(
    shard: CoordinatorShard, keys: Sequence[OffsetKey], others: Sequence[LogRecord], done: Done
) -> bool:
    """Write tombstones, and disregard the commits before them that are not replicated yet."""
    if not shard.log.append([*((offset_key(key), None) for key in keys), *others], done):
        return False
    for key in keys:
        shard.offsets.withdraw(key)
    return True
