"""Every version of OffsetCommit and OffsetFetch that a broker may offer, and the choice of one."""

from typing import Any

import pytest

from kprod.broker.handlers.offset_commit_handler import OffsetCommitHandler
from kprod.broker.handlers.offset_fetch_handler import OffsetFetchHandler
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.group.test_commits import MANUAL, committed, poll_some
from tests.consumer.group.virtual_group import VirtualGroup
from tests.consumer.test_patterns import create, delete

P0 = TopicPartition("orders", 0)
FIRST_WITH_EPOCH = {OffsetCommitHandler: 6, OffsetFetchHandler: 5}


class Tapped(VirtualGroup):
    """A group whose requests are noted."""

    def __init__(self, partitions: int) -> None:
        """Start without requests."""
        self._written: dict[int, bytearray] = {}
        super().__init__(partitions)

    def versions(self, api: ApiKey) -> set[int]:
        """The versions in which an API was asked."""
        found = set()
        for written in self._written.values():
            at = 0
            while at < len(written):
                if int.from_bytes(written[at + 4 : at + 6]) == api:
                    found.add(int.from_bytes(written[at + 6 : at + 8]))
                at += 4 + int.from_bytes(written[at : at + 4])
        return found

    def _move(self) -> None:
        for number, (transport, _) in enumerate(self._pipes):
            self._written.setdefault(number, bytearray()).extend(transport.to_peer)
        super()._move()


def test_the_newest_versions_have_topic_ids() -> None:
    """A group uses no other one; a topic that nobody knows is asked for by its name."""
    with Tapped(1) as group:
        group.fill(3, 0)
        one = group.member("orders", **MANUAL)
        poll_some(one, 2)
        one.commit()
        assert committed(one) == 2
        assert group.versions(ApiKey.OFFSET_COMMIT) == {10}
        assert group.versions(ApiKey.OFFSET_FETCH) == {10}
        assert committed(one, TopicPartition("nowhere", 0)) is None
        assert group.versions(ApiKey.OFFSET_FETCH) == {9, 10}


def test_a_topic_that_was_created_again_has_another_id() -> None:
    """The id is not known any more; new metadata has the new one."""
    with Tapped(1) as group:
        one = group.member(**MANUAL)
        create(group, "bills")
        key = TopicPartition("bills", 0)
        one.assign([key])
        poll_some(one, 2)
        delete(group, "bills")
        create(group, "bills")
        one.commit({key: 1})
        assert committed(one, key) == 1
        assert group.versions(ApiKey.OFFSET_COMMIT) == {10}


@pytest.mark.parametrize(
    ("handler", "last"),
    [
        *((OffsetCommitHandler, last) for last in range(2, 11)),
        *((OffsetFetchHandler, last) for last in range(1, 11)),
    ],
)
def test_each_version_commits_and_returns_offsets(
    monkeypatch: pytest.MonkeyPatch, handler: Any, last: int
) -> None:
    """Offset and text; the epoch where the version has it."""
    monkeypatch.setattr(handler, "advertised", (1, last))
    with Tapped(2) as group:
        one = group.member("orders", **MANUAL)
        group.poll(one, seconds=4)
        one.commit({P0: OffsetAndMetadata(1, "half", 0)})
        epoch = 0 if last >= FIRST_WITH_EPOCH[handler] else -1
        keys = [P0, TopicPartition("orders", 1)]
        assert one.committed(keys) == {P0: OffsetAndMetadata(1, "half", epoch), keys[1]: None}
        assert group.versions(handler.api_key) == {last}
