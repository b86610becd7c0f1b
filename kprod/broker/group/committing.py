"""OffsetCommit, OffsetDelete and DeleteGroups: change committed offsets on request.

Thread-safety: the broker's thread.
Source: Kafka OffsetMetadataManager: commitOffset, deleteOffsets; ClassicGroup.validateOffsetCommit
(4.3.1).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap

from kprod.broker.group import sessions
from kprod.broker.group.classic_group import Group
from kprod.broker.group.leaving import forget_group
from kprod.broker.group.offsets_log import NOT_IN_THE_LOG
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
_Tombstone = tuple[OffsetKey | None, bytes]
"""The offset that it deletes, or none for a group's, and the record's key."""

_RECORD_OVERHEAD_BYTES = 24
"""Most bytes of a record besides its key: length, attributes, deltas, lengths of the fields."""

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
    shard: CoordinatorShard,
    commits: Sequence[Commit],
    done: Callable[[int], object],
    *,
    new_group: Group | None = None,
) -> None:
    """Write offsets; they become visible when they are replicated.

    Args:
        shard: The shard that holds the group.
        commits: The commits, at least one.
        done: Called with the error code.
        new_group: The group, if it exists by this commit alone: it ends if nothing is written.
    """
    number = shard.offsets.begin_commit(key for key, _ in commits)

    def written(code: int, base_offset: int) -> None:
        for index, (key, offset) in enumerate(commits):
            if shard.offsets.end_commit(number, key) and code == ErrorCode.NONE:
                shard.offsets.put(key, offset._replace(log_offset=base_offset + index))
        if base_offset == NOT_IN_THE_LOG and new_group is not None:
            forget_group(shard, new_group, code)
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

    def written(piece: Sequence[OffsetKey], code: int, _: int) -> None:
        if code == ErrorCode.NONE:
            for key in piece:
                shard.offsets.remove(key)

    _append_tombstones(shard, _offset_tombstones(known), written, done)


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
    tombstones = _offset_tombstones(shard.offsets.keys_of_group(group_id))
    tombstones.append((None, group_key(group_id)))

    def written(piece: Sequence[OffsetKey], _: int, offset: int) -> None:
        # After a timeout, too: nothing else would remove the offsets of a group that has ended.
        if offset != NOT_IN_THE_LOG:
            for key in piece:
                shard.offsets.remove(key)

    is_in_log = _append_tombstones(shard, tombstones, written, done)
    if is_in_log and group.state is not GroupState.DEAD:
        forget_group(shard, group, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _check_state(group: Group, event: Event) -> None:
    code = rejection(event, group.state)
    if code != ErrorCode.NONE:
        raise Rejected(code)


def _offset_tombstones(keys: Sequence[OffsetKey]) -> list[_Tombstone]:
    return [(key, offset_key(key)) for key in keys]


def _append_tombstones(
    shard: CoordinatorShard,
    tombstones: Sequence[_Tombstone],
    written: Callable[[Sequence[OffsetKey], int, int], object],
    done: Callable[[int], object],
) -> bool:
    """Write tombstones, and disregard the commits before them that are not replicated yet.

    They are divided into batches that the log takes, since they may be more than one request could
    commit. Kafka divides those of expired offsets and of deleted topics, and rejects a deletion of
    a group that is too large.

    Args:
        shard: The shard that holds the groups.
        tombstones: At least one.
        written: Called for each batch with the offsets that it deletes, and as `Done` is.
        done: Called once, with the first error.

    Returns:
        Whether all of them are in the log.
    """
    pieces = _pieces(tombstones, shard.log.record_bytes_max)
    batches = _Batches(len(pieces), done)

    def ended(keys: Sequence[OffsetKey], code: int, offset: int) -> None:
        written(keys, code, offset)
        batches.end(1, code)

    for index, piece in enumerate(pieces):
        keys = [key for key, _ in piece if key is not None]
        records: list[LogRecord] = [(encoded, None) for _, encoded in piece]
        if not shard.log.append(records, partial(ended, keys)):
            # Those after it would end a group whose offsets are still there.
            batches.end(len(pieces) - 1 - index, ErrorCode.NONE)
            return False
        for key in keys:
            shard.offsets.withdraw(key)
    return True


class _Batches:
    """Batches of one operation, which ends with the last of them."""

    __slots__ = ("_code", "_count", "_done")

    def __init__(self, count: int, done: Callable[[int], object]) -> None:
        """Expect some batches; `done` is called once, with the first error."""
        self._count = count
        self._code = int(ErrorCode.NONE)
        self._done = done

    def end(self, count: int, code: int) -> None:
        """Note that some have ended."""
        self._code = self._code or code
        was_open, self._count = self._count > 0, self._count - count
        if was_open and not self._count:
            self._done(self._code)


def _pieces(tombstones: Sequence[_Tombstone], bytes_max: int) -> list[list[_Tombstone]]:
    pieces: list[list[_Tombstone]] = [[]]
    size = 0
    for tombstone in tombstones:
        record_bytes = len(tombstone[1]) + _RECORD_OVERHEAD_BYTES
        if pieces[-1] and size + record_bytes > bytes_max:
            pieces.append([])
            size = 0
        pieces[-1].append(tombstone)
        size += record_bytes
    return pieces
