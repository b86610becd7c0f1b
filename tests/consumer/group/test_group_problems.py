"""Problems of a membership in virtual time: what `poll` raises, and how long."""

import pytest

from kprod.errors import KprodError
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, GroupAuthorizationFailed
from tests.consumer.group.test_commits import P0, polls_that_raise
from tests.consumer.group.virtual_group import VirtualGroup


@pytest.mark.parametrize("code", [-1, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_rejected_heartbeat_is_forgotten_when_the_next_one_works(code: int) -> None:
    """`poll` raises until then, and no longer."""
    with VirtualGroup(1) as group:
        one = group.member("orders", heartbeat_interval_ms=500)
        group.poll(one)
        group.world.cluster.faults.fail_next(ApiKey.HEARTBEAT, code)
        assert 1 <= polls_that_raise(one, KprodError) < 50
        assert polls_that_raise(one, KprodError) == 0


def test_a_rejected_search_is_forgotten_without_a_membership() -> None:
    """The group's offsets are enough of a sign."""
    with VirtualGroup(1) as group:
        group.world.cluster.faults.fail_next(
            ApiKey.FIND_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        one = group.member()
        one.assign([P0])
        assert polls_that_raise(one, GroupAuthorizationFailed) >= 1
        assert polls_that_raise(one, KprodError) == 0
