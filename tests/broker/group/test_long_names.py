"""Names and numbers at the limits of the records of groups, and the partition of a name."""

import pytest

from kprod.broker.group.coordinator import CLIENT_NAME_BYTES_MAX, partition_index
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Script

LONGEST_NAME = "n" * CLIENT_NAME_BYTES_MAX


@pytest.mark.parametrize(
    ("group_id", "index"),
    [
        ("g", 3),
        ("my-group", 12),
        ("console-consumer-1", 24),
        ("orders", 31),
        ("über", 5),
        ("polygenelubricants", 0),  # its hash is −2³¹, which has no absolute value
        ("", 0),
    ],
)
def test_a_group_is_in_the_partition_that_java_s_hash_names(group_id: str, index: int) -> None:
    """Its partition among fifty, as Apache Kafka 4.3.1 gives it."""
    assert partition_index(group_id, 50) == index


def test_a_join_with_a_name_that_is_too_long_is_rejected() -> None:
    """Nothing is left of it: there is no group afterwards."""
    script = Script()
    member = script.member(group_instance_id=LONGEST_NAME + "n")
    member.join()
    assert member.take()["error_code"] == ErrorCode.INVALID_REQUEST
    assert script.world.cluster.groups() == []
    assert script.world.cluster._kprod.engine.failures == []


def test_the_longest_name_makes_a_member_that_outlives_its_coordinator() -> None:
    """Its id is in the group's record, whole."""
    script = Script(brokers=2)
    (member,) = script.stable(1, group_instance_id=LONGEST_NAME)
    assert len(member.member_id) == 0x7FFF
    before = script.world.cluster.group(GROUP)
    script.world.cluster.move_coordinator(GROUP, to=1 - before.coordinator)
    assert script.world.cluster.group(GROUP).members == before.members


def test_an_offset_kept_for_ever_expires_at_the_end_of_time() -> None:
    """A retention time of 2⁶³ − 1 ms is not added to the clock beyond that."""
    script = Script()
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    body = {"group_id": GROUP, "retention_time_ms": 2**63 - 1, "topics": topics}
    answer = script.ask(ApiKey.OFFSET_COMMIT, 4, **body)
    assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE
    script.world.advance(1)
    assert script.world.cluster._kprod.engine.failures == []
