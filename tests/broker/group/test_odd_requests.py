"""Requests of a size or a version that no sound client sends: bounded, and without harm."""

import tracemalloc

import pytest

from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec
from kprod.protocol.error_table import ErrorCode
from kprod.protocol.headers import encode_request_header
from tests.broker.group.scripts import GROUP, SESSION_MS, Script, subscription
from tests.broker.world import World

MANY = 100_000
FETCHED = 20_000
"""Entries while every allocation is traced, which takes ten times as long."""
BYTES_EACH = 2_000
"""Most memory for one entry of a request and of its response, together."""


def test_a_fetch_of_many_topics_is_answered_in_bounded_memory() -> None:
    """Each topic is told to have no offset; afterwards nothing of it is kept."""
    script = Script()
    (member,) = script.stable(1)
    topics = [{"name": f"t{number}", "partition_indexes": [0]} for number in range(FETCHED)]
    tracemalloc.start()
    try:
        answer = script.ask(ApiKey.OFFSET_FETCH, 7, group_id=GROUP, topics=topics)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < FETCHED * BYTES_EACH
    assert len(answer["topics"]) == FETCHED
    assert {it["partitions"][0]["committed_offset"] for it in answer["topics"]} == {-1}
    assert script.world.cluster.group(GROUP).offsets == {}
    assert member.heartbeat() == ErrorCode.NONE


def test_a_leave_that_names_one_member_often() -> None:
    """It leaves once, and is unknown after that."""
    script = Script()
    (member,) = script.stable(1)
    members = [{"member_id": member.member_id}] * MANY
    answer = script.ask(ApiKey.LEAVE_GROUP, 5, group_id=GROUP, members=members)
    codes = [it["error_code"] for it in answer["members"]]
    assert codes[0] == ErrorCode.NONE
    assert set(codes[1:]) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(codes) == MANY
    assert script.state == "Empty"


def test_assignments_of_strangers_are_not_kept() -> None:
    """A leader may name any id; the group's record has the members alone."""
    script = Script()
    (member,) = script.stable(1)
    member.join()
    member.take_join()
    strangers = {f"nobody-{number}": bytes(10) for number in range(1_000)}
    state = script.world.cluster._kprod.engine.state
    before = state.log_bytes
    member.sync({**strangers, member.member_id: b"mine"})
    assert member.take()["assignment"] == b"mine"
    assert state.log_bytes - before < 1_000
    assert script.state == "Stable"


def test_more_assignments_than_there_is_memory_for_end_the_connection() -> None:
    """They are counted before they are decoded; the member is removed as any that is silent."""
    script = Script()
    (member,) = script.stable(1)
    member.join()
    member.take_join()
    member.sync({f"nobody-{number}": bytes(10) for number in range(MANY)})
    assert member.client.stream.closed
    assert script.state == "CompletingRebalance"
    script.world.advance(SESSION_MS)
    assert script.state == "Empty"
    assert script.world.cluster.failures == ()


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (ApiKey.JOIN_GROUP, 10),
        (ApiKey.SYNC_GROUP, 6),
        (ApiKey.HEARTBEAT, 5),
        (ApiKey.LEAVE_GROUP, 6),
        (ApiKey.OFFSET_COMMIT, 0),
        (ApiKey.OFFSET_FETCH, 0),
    ],
)
def test_a_version_that_is_not_served_ends_the_connection(api: ApiKey, version: int) -> None:
    """The group and its other connections live on."""
    script = Script()
    (member,) = script.stable(1)
    known = request_codec(ApiKey.HEARTBEAT, 0)
    body = known.encode({"group_id": GROUP, "generation_id": 1, "member_id": member.member_id})
    other = script.world.client()
    header = encode_request_header(ApiKey.HEARTBEAT, 0, 1, "odd")
    other.send_frame(int(api).to_bytes(2) + version.to_bytes(2) + header[4:] + body)
    assert other.stream.closed
    assert member.heartbeat() == ErrorCode.NONE
    assert script.world.cluster.failures == ()


def test_a_leave_behind_a_sync_that_a_rebalance_answers() -> None:
    """The leave is processed after the step that has answered the sync, not inside it."""
    script = Script()
    leader = script.member(group_instance_id="one")
    leader.join()
    leader.take_join()
    other, third = script.member(), script.member()
    other.join()
    third.join()
    leader.join()
    for member in (leader, other, third):
        assert member.take_join()["error_code"] == ErrorCode.NONE
    assert script.state == "CompletingRebalance"
    other.sync()  # parked: the leader has not synced
    leave = {"group_id": GROUP, "member_id": other.member_id}
    other.client.send(ApiKey.LEAVE_GROUP, 0, leave)  # behind it, on the same connection
    script.member(group_instance_id="one").join()  # takes the leader's place
    codes = [answer["error_code"] for answer in other.answers()]
    assert codes == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]
    assert not script.world.cluster.failures
    third.join()
    assert third.take_join()["error_code"] == ErrorCode.NONE
    assert len(script.world.cluster.group(GROUP).members) == 2


@pytest.mark.parametrize("names", [("range", "range"), ("range", "sticky", "range")])
def test_a_protocol_that_is_listed_twice_counts_once(names: tuple[str, ...]) -> None:
    """Alone, beside others, and when such a member changes or leaves."""
    script = Script()
    listed = [{"name": name, "metadata": subscription("orders")} for name in names]
    odd = script.member(protocols=listed)
    odd.join()
    assert odd.take_join()["protocol_name"] == "range"
    script.sync([odd])
    other = script.member()
    other.join()
    odd.join()
    assert {it.take_join()["protocol_name"] for it in (odd, other)} == {"range"}
    assert odd.leave() == ErrorCode.NONE
    other.join()
    assert other.take_join()["protocol_name"] == "range"
    assert script.world.cluster.failures == ()


def test_partitions_that_are_added_to_the_offsets_topic_move_no_group() -> None:
    """Members and offsets stay where they are, until the cluster starts again."""
    script = Script()
    (member,) = script.stable(1)
    topic = {"name": OFFSETS_TOPIC, "count": 8, "assignments": None}
    answer = script.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[topic], timeout_ms=1_000)
    assert answer["results"][0]["error_code"] == ErrorCode.NONE
    assert member.heartbeat() == ErrorCode.NONE
    assert member.commit(5) == ErrorCode.NONE
    for name in map(str, range(20)):  # every partition would have one of them
        described = script.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=[name])["groups"]
        assert described[0]["error_code"] == ErrorCode.NONE


def test_an_offsets_topic_that_a_client_has_created() -> None:
    """Its groups are coordinated as those of one that the cluster makes."""
    world = World()
    topic = {"name": OFFSETS_TOPIC, "num_partitions": 3, "replication_factor": 1}
    wish = {"topics": [topic], "timeout_ms": 1_000}
    (made,) = world.client().ask(ApiKey.CREATE_TOPICS, 5, wish)["topics"]
    assert made["error_code"] == ErrorCode.NONE
    for name in map(str, range(10)):
        found = world.client().ask(ApiKey.FIND_COORDINATOR, 0, {"key": name})
        client = world.client(found["node_id"])
        (told,) = client.ask(ApiKey.DESCRIBE_GROUPS, 0, {"groups": [name]})["groups"]
        assert (told["error_code"], told["group_state"]) == (ErrorCode.NONE, "Dead")
