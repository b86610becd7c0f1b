"""The states of a group, the moves between them, and the error that a state answers with.

`MOVES` has every legal move; any other is a mistake of the coordinator and raises. `REJECTIONS` has
every error code that depends on nothing but the state. What a state does with a request that it
does not reject is in the module named after the event: `joining`, `syncing`, `sessions`, `leaving`,
`static_members`.

Thread-safety: constants.
Source: Kafka ClassicGroupState and GroupMetadataManager (4.3.1).
"""

import enum
from collections.abc import Mapping
from typing import Final

from kprod.protocol.error_table import ErrorCode


class GroupState(enum.Enum):
    """The state of a group; the value is the text that Kafka's answers have."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    _PREPARING: frozenset({_EMPTY, _COMPLETING, _DEAD}),
    _COMPLETING: frozenset({_STABLE, _PREPARING, _DEAD}),
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset(),
}
"""From a state to the states that may follow it."""


class Event(enum.Enum):
    """A client's action on a group that a state may reject."""

    JOIN_NEW = "join of a new member"
    JOIN_KNOWN = "join of a known member"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    MEMBER_COMMIT = "commit of a member"
    SIMPLE_COMMIT = "commit without a member"
    DELETE = "deletion"


_IS_GONE = ErrorCode.COORDINATOR_NOT_AVAILABLE

REJECTIONS: Final[Mapping[Event, Mapping[GroupState, ErrorCode]]] = {
    Event.JOIN_NEW: {_DEAD: _IS_GONE},
    Event.JOIN_KNOWN: {_EMPTY: ErrorCode.UNKNOWN_MEMBER_ID, _DEAD: _IS_GONE},
    Event.SYNC: {
        _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
        _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
        _DEAD: _IS_GONE,
    },
    Event.HEARTBEAT: {
        _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
        _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
        _DEAD: _IS_GONE,
    },
    Event.LEAVE: {_DEAD: _IS_GONE},
    Event.MEMBER_COMMIT: {
        _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
        _COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
        _DEAD: _IS_GONE,
    },
    Event.SIMPLE_COMMIT: {
        _PREPARING: ErrorCode.UNKNOWN_MEMBER_ID,
        _COMPLETING: ErrorCode.UNKNOWN_MEMBER_ID,
        _STABLE: ErrorCode.UNKNOWN_MEMBER_ID,
        _DEAD: _IS_GONE,
    },
    Event.DELETE: {
        _PREPARING: ErrorCode.NON_EMPTY_GROUP,
        _COMPLETING: ErrorCode.NON_EMPTY_GROUP,
        _STABLE: ErrorCode.NON_EMPTY_GROUP,
        _DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
    },
}
"""The error for each event that a state rejects; events that are not here are accepted."""


def rejection(event: Event, state: GroupState) -> ErrorCode:
    """The error that a state answers with.

    Args:
        event: The kind of request.
        state: State of the group.

    Returns:
        `NONE` if the state takes it.
    """
    return REJECTIONS[event].get(state, ErrorCode.NONE)
