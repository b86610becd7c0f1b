"""States of a connection, its back-off and its set-up time."""

import itertools
import random

import pytest

from kprod.config import ClientConfig
from kprod.config.address import parse_addresses
from kprod.errors import LocalProtocolError
from kprod.network.node_state import TRANSITIONS, ConnectionState, NodeState


def make(seed: int = 5) -> NodeState:
    """A node that was never connected to."""
    config = ClientConfig(bootstrap_servers=parse_addresses("a:1"))
    return NodeState(config.network_settings(), random.Random(seed))


def test_the_way_to_ready() -> None:
    """Connecting, checking, ready."""
    state = make()
    assert state.can_connect(0)

    state.begin_connect(10)
    assert (state.is_down, state.is_ready, state.can_connect(10**9)) == (False, False, False)
    state.begin_check()
    state.become_ready()

    assert state.is_ready
    assert state.last_attempt_ms == 10


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(ConnectionState, ConnectionState))
)
def test_only_moves_of_the_table_are_possible(
    before: ConnectionState, after: ConnectionState
) -> None:
    """Every other move is an error that names both states."""
    moves = {
        ConnectionState.DISCONNECTED: lambda state: state.fail(0),
        ConnectionState.CONNECTING: lambda state: state.begin_connect(0),
        ConnectionState.TLS_HANDSHAKE: lambda state: state.begin_tls(),
        ConnectionState.CHECKING_API_VERSIONS: lambda state: state.begin_check(),
        ConnectionState.AUTHENTICATING: lambda state: state.begin_login(),
        ConnectionState.READY: lambda state: state.become_ready(),
        ConnectionState.REAUTHENTICATING: lambda state: state.begin_login_again(),
        ConnectionState.AUTHENTICATION_FAILED: lambda state: state.fail(0, authentication=True),
    }
    state = make()
    state.current = before
    if after in TRANSITIONS[before]:
        moves[after](state)
        assert state.current is after
    else:
        with pytest.raises(LocalProtocolError, match=f"from {before.name} to {after.name}"):
            moves[after](state)


def test_back_off_doubles_until_ready() -> None:
    """50 ms to 1 s, a fifth either way; only READY begins again."""
    state, waits_ms = make(), []
    for _ in range(8):
        state.begin_connect(0)
        state.begin_check()  # a connection that stands is not yet a success
        state.fail(0)
        waits_ms.append(state.retry_at_ms)
        assert not state.can_connect(state.retry_at_ms - 1)
        assert state.can_connect(state.retry_at_ms)

    for index, wait_ms in enumerate(waits_ms):
        nominal_ms = min(50 * 2**index, 1_000)
        assert 0.8 * nominal_ms - 1 <= wait_ms <= min(1.2 * nominal_ms + 1, 1_000)

    state.begin_connect(0)
    state.begin_check()
    state.become_ready()
    state.fail(0)
    assert state.retry_at_ms <= 60


def test_set_up_time_doubles_until_the_connection_is_ready() -> None:
    """10 s to 30 s, a fifth either way; a standing connection begins again."""
    state, allowed_ms = make(), []
    for _ in range(5):
        allowed_ms.append(state.begin_connect(0))
        state.fail(0)

    for index, each_ms in enumerate(allowed_ms):
        nominal_ms = min(10_000 * 2**index, 30_000)
        assert 0.8 * nominal_ms <= each_ms <= min(1.2 * nominal_ms, 30_000)

    state.begin_connect(0)
    state.begin_check()
    state.fail(0)
    assert state.begin_connect(0) <= 12_000


def test_a_retired_connection_may_come_back_at_once() -> None:
    """Idleness is no failure."""
    state = make()
    state.begin_connect(0)
    state.begin_check()
    state.become_ready()

    state.retire(100)

    assert state.can_connect(100)
    assert state.failures == 0


def test_a_throttles_end_never_moves_back() -> None:
    """A later, shorter throttle does not cut an earlier, longer one."""
    state = make()
    state.throttle(1_000, 0)
    state.throttle(100, 500)

    assert state.throttled_until_ms == 1_000
