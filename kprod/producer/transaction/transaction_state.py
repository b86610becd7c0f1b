"""The states of a transaction manager, and the allowed transitions.

Thread-safety: immutable.
Source: Kafka TransactionManager.State (clients 4.3.1), the part without transactions.
"""

import enum

from kprod.errors import LocalProtocolError


class IdentityState(enum.Enum):
    """The state of the producer id."""

    UNINITIALIZED = "there is none, and none is asked for"
    INITIALIZING = "one is asked for"
    READY = "there is one"
    FATAL = "there will never be one"


TRANSITIONS: dict[IdentityState, frozenset[IdentityState]] = {
    IdentityState.UNINITIALIZED: frozenset({IdentityState.INITIALIZING, IdentityState.FATAL}),
    IdentityState.INITIALIZING: frozenset(
        {IdentityState.READY, IdentityState.UNINITIALIZED, IdentityState.FATAL}
    ),
    IdentityState.READY: frozenset({IdentityState.UNINITIALIZED, IdentityState.FATAL}),
    IdentityState.FATAL: frozenset({IdentityState.FATAL}),
}


def move(present: IdentityState, following: IdentityState) -> IdentityState:
    """Return the next state, if the transition is allowed.

    Raises:
        LocalProtocolError: The transition is not allowed.
    """
    if following not in TRANSITIONS[present]:
        raise LocalProtocolError(f"the producer's identity cannot go from {present} to {following}")
    return following
