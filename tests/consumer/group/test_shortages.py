"""Completions of a group member's requests that raise: the requests are made again."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kprod.consumer.consumer_face import engine_of
from kprod.consumer.group.commits import Commits
from kprod.consumer.group.committed_offsets import CommittedOffsets
from kprod.consumer.group.coordinator_link import CoordinatorLink
from kprod.consumer.group.departure import Departure
from kprod.consumer.group.member_state import MemberState
from kprod.consumer.group.membership import Membership
from kprod.consumer.offset_lookup import OffsetLookup
from kprod.consumer.truncation import Truncation
from kprod.network.metadata_updater import MetadataUpdater
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, FencedInstanceId
from tests.consumer.group.virtual_group import VirtualGroup, state_of
from tests.consumer.shortages import Shortage

RECORDS = 6
LIMIT_MS = 3_000  # a fault that leaves something waiting costs at least the 5 s of a departure
STRIDE = 3  # only every third allocation, where each costs the life of a group
CALM_MAX = 4  # allocations in a row without an error: there are no more


def _read(consumer: Any, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for _ in range(LIMIT_MS // 50):
        if len(found) >= count:
            break
        found += [(record.partition, record.offset) for record in consumer.poll(0.05)]
    return found


def _live() -> None:
    """Let two members read a topic, one after the other, in little time."""
    with VirtualGroup(2) as group:
        group.fill(RECORDS, 0, 1)
        began_ms = group.world.clock.now_ms()
        one = group.member("orders", enable_auto_commit=False, max_poll_records=4)
        found = _read(one, 1)
        assert sorted(one.end_offsets(one.assignment()).values()) == [RECORDS, RECORDS]
        one.commit()
        one.close(20)
        two = group.member("orders", enable_auto_commit=False)
        found += _read(two, 2 * RECORDS - len(found))
        two.commit()
        assert sorted(found) == [(number, it) for number in (0, 1) for it in range(RECORDS)]
        assert group.world.clock.now_ms() - began_ms < LIMIT_MS


def _lose(code: ErrorCode) -> None:
    """Have a static member's heartbeats rejected, twice if the first is not acted on."""
    with VirtualGroup(1) as group:
        group.fill(RECORDS, 0)
        member = group.member("orders", group_instance_id="one", heartbeat_interval_ms=500)
        assert len(_read(member, RECORDS)) == RECORDS
        group.world.cluster.faults.fail_next(ApiKey.HEARTBEAT, code, times=2)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            with pytest.raises(FencedInstanceId, match="group_instance_id='one'"):
                group.poll(member)
            assert state_of(member) is MemberState.FENCED
            return
        group.poll(member)
        group.fill(RECORDS, 0)
        assert len(_read(member, RECORDS)) == RECORDS
        group_parts = engine_of(member).parts.group
        assert group_parts is not None
        assert group_parts.membership.rebalance_count > 1


def _run_short(
    patches: pytest.MonkeyPatch,
    live: Callable[[], object],
    call: tuple[type, str, int],
    stride: int = STRIDE,
) -> None:
    """Run a scene again and again; another allocation of one call of a completion fails each time.

    Args:
        patches: Replaces the completion.
        live: The scene.
        call: The completion's class and name, and the number of the call, from 1.
        stride: Distance of the allocations that fail.
    """
    owner, name, call_number = call
    completion: Any = getattr(owner, name)
    raised_count = calm_count = 0
    for allocation in itertools.count(1, stride):
        shortage = Shortage(call_number, allocation)

        def complete(self: Any, *args: Any, run: Any = shortage.run) -> None:
            run(lambda: completion(self, *args))

        patches.setattr(owner, name, complete)
        live()
        assert shortage.was_called
        raised_count += shortage.has_raised
        calm_count = 0 if shortage.has_raised else calm_count + 1
        if calm_count > CALM_MAX:
            break
    assert raised_count


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a generator's end
@pytest.mark.parametrize(
    ("owner", "name", "call_number"),
    [
        (MetadataUpdater, "_on_complete", 1),
        (MetadataUpdater, "_on_complete", 2),
        (CoordinatorLink, "_found", 1),
        (Membership, "_take_answer", 1),
        (Membership, "_take_answer", 2),
        (Membership, "_take_answer", 3),
        (CommittedOffsets, "_complete", 1),
        (CommittedOffsets, "_complete", 2),
        (OffsetLookup, "_complete", 1),
        (OffsetLookup, "_complete", 2),
        (Truncation, "_complete", 1),
        (Commits, "_complete", 1),
        (Departure, "_complete", 1),
    ],
)
def test_nothing_waits_for_a_completion_without_memory(
    owner: type, name: str, call_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reads, the queries, the commits and the end of a member take no longer than a retry."""
    _run_short(monkeypatch, _live, (owner, name, call_number))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as above
@pytest.mark.parametrize(
    "code",
    [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID],
)
def test_a_membership_that_is_lost_without_memory(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next heartbeat is rejected, too: the member joins again, or `poll` says why it cannot."""
    _run_short(monkeypatch, partial(_lose, code), (Membership, "take_error", 1), stride=1)
