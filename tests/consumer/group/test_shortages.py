"""Completions of a group member's requests that raise: the requests are made again."""

import itertools
from typing import Any

import pytest

from kprod.consumer.group.commits import Commits
from kprod.consumer.group.committed_offsets import CommittedOffsets
from kprod.consumer.group.coordinator_link import CoordinatorLink
from kprod.consumer.group.departure import Departure
from kprod.consumer.group.membership import Membership
from kprod.consumer.offset_lookup import OffsetLookup
from kprod.consumer.truncation import Truncation
from kprod.network.metadata_updater import MetadataUpdater
from tests.consumer.group.virtual_group import VirtualGroup
from tests.consumer.shortages import Shortage

RECORDS = 6
LIMIT_MS = 3_000  # a fault that leaves something waiting costs at least the 5 s of a departure
STRIDE = 3  # only every third allocation, since each costs the life of a group
CALM_MAX = 4  # allocations in a row without an error: there are no more


def _read(consumer: Any, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for _ in range(LIMIT_MS // 50):
        if len(found) >= count:
            break
        found += [(record.partition, record.offset) for record in consumer.poll(0.05)]
    return found


def _live() -> int:
    """Let two members read a topic, one after the other; returns the milliseconds that it took."""
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
        return int(group.world.clock.now_ms() - began_ms)


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
    completion: Any = getattr(owner, name)
    raised_count = calm_count = 0
    for allocation in itertools.count(1, STRIDE):
        shortage = Shortage(call_number, allocation)

        def complete(self: Any, *args: Any, run: Any = shortage.run) -> None:
            run(lambda: completion(self, *args))

        monkeypatch.setattr(owner, name, complete)
        assert _live() < LIMIT_MS
        assert shortage.was_called
        raised_count += shortage.has_raised
        calm_count = 0 if shortage.has_raised else calm_count + 1
        if calm_count > CALM_MAX:
            break
    assert raised_count
