"""Problems of a membership in virtual time: what `poll` raises, how long, and what it must not."""

from typing import Any

import pytest

from kprod import Consumer
from kprod.errors import KprodError, KprodTimeout
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, GroupAuthorizationFailed
from tests.consumer.group.test_commits import P0, polls_that_raise
from tests.consumer.group.virtual_group import Listener, VirtualGroup, numbers, state_of


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


def test_a_commit_that_times_out_says_why_no_coordinator_is_known() -> None:
    """The text has the brokers' addresses, and the newest failure of each."""
    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing") as consumer:
        consumer.assign([P0])
        with pytest.raises(
            KprodTimeout, match=r"not confirmed in time: .*; 127\.0\.0\.1:1: .*Connection refused"
        ):
            consumer.commit({P0: 3}, timeout=2)


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_rebalance_during_a_join_is_no_error_of_poll(api: ApiKey) -> None:
    """The member joins again, as in any group whose members come and go."""
    with VirtualGroup(1) as group:
        one = group.member("orders")
        group.world.cluster.faults.fail_next(api, ErrorCode.REBALANCE_IN_PROGRESS)
        group.poll(one, seconds=10)
        assert state_of(one).name == "STABLE"
        assert group.world.cluster.faults.untriggered() == ()


def test_a_new_partition_is_read_from_its_beginning_by_a_member_without_a_share() -> None:
    """Its records are newer than the subscription, so "latest" must not skip them."""
    settings: dict[str, Any] = {"auto_offset_reset": "latest", "metadata_max_age_ms": 1_000}
    with VirtualGroup(1) as group:
        one, two = (group.member("orders", **settings) for _ in range(2))
        group.poll(one, two, seconds=10)
        (idle,) = (each for each in (one, two) if not numbers(each))
        new_count = {"name": "orders", "count": 2, "assignments": None}
        group.ask(
            ApiKey.CREATE_PARTITIONS,
            0,
            {"topics": [new_count], "timeout_ms": 1_000, "validate_only": False},
        )
        group.fill(3, 1)
        found = group.poll(one, two, seconds=20)
        assert [(it.partition, it.offset) for it in found[idle]] == [(1, 0), (1, 1), (1, 2)]


def test_the_same_subscription_again_is_no_rebalance() -> None:
    """The listener is replaced."""
    with VirtualGroup(1) as group:
        one = group.member("orders", listener=Listener())
        group.poll(one)
        generation = one.group_metadata().generation
        second = Listener()
        one.subscribe(["orders"], second)
        group.poll(one)
        assert one.group_metadata().generation == generation
        assert one.subscription() == {"orders"}
        one.unsubscribe()
        assert second.calls == [("revoked", [0])]
        assert one.subscription() == set()


def test_a_subscription_is_a_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    """Time without a subscription does not count as a stall."""
    with VirtualGroup(1) as group:
        one = group.member("orders", max_poll_interval_ms=10_000, session_timeout_ms=6_000)
        group.poll(one)
        one.unsubscribe()
        group.pass_time(11)
        one.subscribe("orders")
        group.pass_time(6)
        assert "has asked for no record" not in caplog.text


@pytest.mark.parametrize(("reason", "error"), [(5, TypeError), ("\ud800", ValueError)])
def test_a_bad_reason_is_rejected_at_the_door(reason: Any, error: type[Exception]) -> None:
    """The I/O thread never sees it."""
    with VirtualGroup(1) as group:
        one = group.member("orders")
        with pytest.raises(error):
            one.enforce_rebalance(reason)
