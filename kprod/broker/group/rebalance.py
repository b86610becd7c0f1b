"""Moves a group from one generation to the next: prepare, join phase, completion.

Thread-safety: the broker's thread.
Source: Kafka GroupMetadataManager: prepareRebalance, maybeCompleteJoinElseSchedule,
tryCompleteInitialRebalanceElseSchedule, completeClassicGroupJoin, expirePendingSync (4.3.1).
"""

from functools import partial

from kprod.broker.delayed.delayed_join import DelayedJoin, InitialDelayedJoin
from kprod.broker.delayed.delayed_sync import DelayedSync
from kprod.broker.group.answers import answer_join, answer_sync, joined, sync_rejected, synced
from kprod.broker.group.classic_group import Group
from kprod.broker.group.sessions import end, renew
from kprod.broker.group.shard import CoordinatorShard
from kprod.broker.group.state import GroupState
from kprod.protocol.error_table import ErrorCode

_CAN_REBALANCE = (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE)


def prepare_or_complete(shard: CoordinatorShard, group: Group) -> None:
    """Start a rebalance, or complete the current one if all members have joined.

    Args:
        shard: The shard that holds the group.
        group: A group whose members have changed.
    """
    if group.state in _CAN_REBALANCE:
        prepare(shard, group)
    elif group.state is GroupState.PREPARING:
        complete_if_all_joined(shard, group)


def prepare(shard: CoordinatorShard, group: Group) -> None:
    """Start a rebalance.

    Args:
        shard: The shard that holds the group.
        group: A group in a state that allows a rebalance.
    """
    if group.state is GroupState.COMPLETING:
        group.assign({})
        propagate(shard, group, ErrorCode.REBALANCE_IN_PROGRESS)
    end_sync_wait(group)
    is_initial = group.state is GroupState.EMPTY
    shard.move(group, GroupState.PREPARING)
    if is_initial:
        group.new_member_added = False
        delay_ms = shard.config.group_initial_rebalance_delay_ms
        _await_initial(
            shard, group, delay_ms, remaining_ms=max(group.rebalance_timeout_ms - delay_ms, 0)
        )
    else:
        _await_joins(shard, group)


def complete_if_all_joined(shard: CoordinatorShard, group: Group) -> None:
    """End the join phase if all members have joined; an initial one lasts until its delay ends."""
    shard.waiting.joins.check_and_complete(("join", group.group_id))


def complete_early(shard: CoordinatorShard, group: Group) -> None:
    """End the join phase if all members have joined, even an initial one."""
    if group.state is GroupState.PREPARING and group.has_all_joined:
        complete_join_phase(shard, group)


def complete_join_phase(shard: CoordinatorShard, group: Group) -> None:
    """End the join phase with the joined members.

    Dynamic members that have not joined are removed. If no remaining member has joined, all are
    absent static members, and the phase continues.

    Args:
        shard: The shard that holds the group.
        group: A group in state Preparing.
    """
    end_join_wait(group)
    for member in list(group.members.values()):
        if member.parked_join is None and member.instance_id is None:
            end(member)
            group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        _await_joins(shard, group)
        return
    group.begin_generation(shard.timestamp_ms)
    if group.state is GroupState.EMPTY:
        shard.write_group(group, lambda *_: None)
        return
    for member in list(group.members.values()):
        is_leader = member.member_id == group.leader_id
        answer_join(group, member, joined(group, member, with_members=is_leader))
        renew(shard, group, member)
        member.is_new = False
    _await_syncs(shard, group)


def propagate(shard: CoordinatorShard, group: Group, code: int) -> None:
    """Respond to every member's waiting SyncGroup request.

    Args:
        shard: The shard that holds the group.
        group: The group; every assignment is known if the code is NONE.
        code: Error of every response; NONE sends each member its assignment.
    """
    for member in list(group.members.values()):
        is_good = code == ErrorCode.NONE
        if answer_sync(member, synced(group, member) if is_good else sync_rejected(code)):
            # A session cannot expire while its request waits, so it starts again now.
            renew(shard, group, member)


def end_join_wait(group: Group) -> None:
    """Stop the delayed join, without ending the phase."""
    operation, group.delayed_join = group.delayed_join, None
    if operation is not None:
        operation.force_complete()


def end_sync_wait(group: Group) -> None:
    """Stop waiting for syncs."""
    group.pending_syncs.clear()
    operation, group.delayed_sync = group.delayed_sync, None
    if operation is not None:
        operation.force_complete()


def note_sync(shard: CoordinatorShard, group: Group, member_id: str) -> None:
    """Record that a member has synced."""
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        shard.waiting.syncs.check_and_complete(("sync", group.group_id))


def _await_joins(shard: CoordinatorShard, group: Group) -> None:
    operation = DelayedJoin(
        group,
        delay_ms=group.rebalance_timeout_ms,
        finish=partial(complete_join_phase, shard, group),
    )
    _watch(shard, group, operation)


def _await_initial(
    shard: CoordinatorShard, group: Group, delay_ms: int, *, remaining_ms: int
) -> None:
    operation = InitialDelayedJoin(
        group,
        delay_ms=delay_ms,
        finish=partial(_end_initial_delay, shard, group, delay_ms, remaining_ms),
    )
    _watch(shard, group, operation)


def _watch(shard: CoordinatorShard, group: Group, operation: DelayedJoin) -> None:
    # Set first: the purgatory may complete it at once.
    group.delayed_join = operation
    shard.waiting.joins.try_complete_or_watch(operation, [("join", group.group_id)])


def _end_initial_delay(
    shard: CoordinatorShard, group: Group, delay_ms: int, remaining_ms: int
) -> None:
    """Extend the initial delay if a member has joined and the rebalance timeout is not used up."""
    if group.new_member_added and remaining_ms > 0:
        group.new_member_added = False
        next_ms = min(shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        _await_initial(shard, group, next_ms, remaining_ms=max(remaining_ms - delay_ms, 0))
    else:
        complete_join_phase(shard, group)


def _await_syncs(shard: CoordinatorShard, group: Group) -> None:
    operation = DelayedSync(
        group,
        delay_ms=group.rebalance_timeout_ms,
        expire=partial(_expire_syncs, shard, group),
    )
    group.delayed_sync = operation
    shard.waiting.syncs.try_complete_or_watch(operation, [("sync", group.group_id)])


def _expire_syncs(shard: CoordinatorShard, group: Group) -> None:
    """Remove the members that have not synced, and rebalance the others."""
    for member_id in list(group.pending_syncs):
        end(group.members[member_id])
        group.remove(member_id)
    prepare(shard, group)
