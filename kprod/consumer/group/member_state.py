"""The states of a group's member, and the only transitions between them.

Thread-safety: pure functions.
Source: Kafka AbstractCoordinator.MemberState (clients 4.3.1), with the application's steps added.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType


class MemberState(enum.Enum):
    """The state of a member."""

    LEFT = "no member: nothing is subscribed, or partitions are assigned by hand"
    PREPARING = "the application's thread gives up partitions before the member joins"
    JOINING = "JoinGroup is to be sent, or waits for the other members"
    LEADING = "this member assigns the partitions of the group"
    SYNCING = "SyncGroup is to be sent, or waits for the leader"
    ASSIGNING = "the application's thread takes over the new assignment"
    STABLE = "the member has its partitions"
    FENCED = "another member with the same group_instance_id has taken over"


class MemberEvent(enum.Enum):
    """A cause of a transition."""

    SUBSCRIBED = "the application subscribed to topics"
    PREPARED = "the application's thread has given up partitions"
    FOLLOWED = "JoinGroup was answered: another member leads"
    ELECTED = "JoinGroup was answered: this member leads"
    LED = "the assignments are computed"
    SYNCED = "SyncGroup was answered"
    ASSIGNED = "the application's thread has taken over the assignment"
    REBALANCE = "the member must join again"
    LOST = "the member's generation is over, and others may have its partitions"
    UNSUBSCRIBED = "the application unsubscribed, or closes the consumer"
    FENCED = "the coordinator knows a newer member with the same group_instance_id"


_S, _E = MemberState, MemberEvent
_MEMBERS = (_S.PREPARING, _S.JOINING, _S.LEADING, _S.SYNCING, _S.ASSIGNING, _S.STABLE)

TRANSITIONS: Mapping[tuple[MemberState, MemberEvent], MemberState] = MappingProxyType(
    {
        (_S.LEFT, _E.SUBSCRIBED): _S.PREPARING,
        (_S.PREPARING, _E.PREPARED): _S.JOINING,
        (_S.JOINING, _E.FOLLOWED): _S.SYNCING,
        (_S.JOINING, _E.ELECTED): _S.LEADING,
        (_S.JOINING, _E.REBALANCE): _S.JOINING,
        (_S.LEADING, _E.LED): _S.SYNCING,
        (_S.LEADING, _E.REBALANCE): _S.JOINING,
        (_S.SYNCING, _E.SYNCED): _S.ASSIGNING,
        (_S.SYNCING, _E.REBALANCE): _S.JOINING,
        (_S.ASSIGNING, _E.ASSIGNED): _S.STABLE,
        (_S.STABLE, _E.REBALANCE): _S.PREPARING,
        (_S.FENCED, _E.UNSUBSCRIBED): _S.LEFT,
        **{(state, _E.LOST): _S.PREPARING for state in _MEMBERS},
        **{(state, _E.UNSUBSCRIBED): _S.LEFT for state in _MEMBERS},
        **{(state, _E.FENCED): _S.FENCED for state in _MEMBERS},
    }
)
"""The next state, by state and event; a pair that is missing is a bug in kprod."""


ASKING = frozenset({_S.JOINING, _S.SYNCING})
"""The states of a member that waits for the response to JoinGroup or SyncGroup."""


def next_state(state: MemberState, event: MemberEvent) -> MemberState:
    """Return the state after an event.

    Args:
        state: The present state.
        event: The event.

    Returns:
        The next state.

    Raises:
        AssertionError: The event cannot happen in this state; a bug in kprod.
    """
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise AssertionError(f"{event.name} cannot happen to a member that is {state.name}")
    return found
