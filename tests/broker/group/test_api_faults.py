"""The cluster's faults on every API of groups, one request each of a Stable group."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, REBALANCE_MS, SESSION_MS, Member, Script, subscription

FAILURE = ErrorCode.COORDINATOR_NOT_AVAILABLE
CODE = "error_code"


class Ask(NamedTuple):
    """One request.

    Attributes:
        api: The API.
        version: The version.
        body: Fields of the request; those of the member are added.
        shows: Whether the group shows that the request was handled.
    """

    api: ApiKey
    version: int
    body: Mapping[str, Any]
    shows: bool = False


_PLACE = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
ASKS = (
    Ask(ApiKey.FIND_COORDINATOR, 0, {"key": GROUP}),
    Ask(ApiKey.FIND_COORDINATOR, 6, {"key_type": 0, "coordinator_keys": [GROUP]}),
    Ask(
        ApiKey.JOIN_GROUP,
        9,
        {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("orders", "more")}],
        },
        shows=True,
    ),
    Ask(ApiKey.SYNC_GROUP, 5, {"protocol_type": "consumer", "protocol_name": "range"}),
    Ask(ApiKey.HEARTBEAT, 4, {}),
    Ask(ApiKey.LEAVE_GROUP, 0, {}, shows=True),
    Ask(ApiKey.LEAVE_GROUP, 5, {}, shows=True),
    Ask(
        ApiKey.OFFSET_COMMIT,
        9,
        {
            "topics": [
                {
                    "name": "orders",
                    "partitions": [{"partition_index": 0, "committed_offset": 7}],
                }
            ]
        },
        shows=True,
    ),
    Ask(ApiKey.OFFSET_FETCH, 5, {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
    Ask(ApiKey.OFFSET_FETCH, 9, {"groups": [{"group_id": GROUP, "topics": None}]}),
    Ask(ApiKey.OFFSET_DELETE, 0, {"topics": _PLACE}),
    Ask(ApiKey.LIST_GROUPS, 5, {}),
    Ask(ApiKey.DESCRIBE_GROUPS, 6, {"groups": [GROUP]}),
    Ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]}),
)
_OF_A_MEMBER = {
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
}
_WITH_GROUP = {*_OF_A_MEMBER, ApiKey.OFFSET_DELETE}


def send(ask: Ask, member: Member) -> None:
    """Send the request as the group's only member."""
    body = dict(ask.body)
    if ask.api in _WITH_GROUP or (ask.api == ApiKey.OFFSET_FETCH and ask.version < 8):
        body["group_id"] = GROUP
    if ask.api == ApiKey.LEAVE_GROUP and ask.version > 2:
        body["members"] = [{"member_id": member.member_id}]
    elif ask.api in _OF_A_MEMBER:
        body["member_id"] = member.member_id
    if ask.api == ApiKey.OFFSET_COMMIT:
        body["generation_id_or_member_epoch"] = member.generation
    elif ask.api in {ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT}:
        body["generation_id"] = member.generation
    member.client.send(ask.api, ask.version, body)


def codes(answer: object) -> Iterator[int]:
    """Every error code of a response, wherever it is."""
    if isinstance(answer, Mapping):
        for name, value in answer.items():
            if name == CODE:
                yield value
            else:
                yield from codes(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from codes(value)


def has_changed(script: Script, before: object) -> bool:
    """Whether the group is another than before."""
    return script.world.cluster.group(GROUP) != before


@pytest.fixture(params=ASKS, ids=lambda ask: f"{ask.api.name}-{ask.version}")
def ask(request: pytest.FixtureRequest) -> Ask:
    """Each request.

    Returns:
        It.
    """
    asked: Ask = request.param
    return asked


@pytest.fixture
def script() -> Script:
    """A group of one member.

    Returns:
        It, in Stable.
    """
    return Script()


@pytest.mark.parametrize("handled", [False, True], ids=["before", "after"])
def test_a_failure(ask: Ask, script: Script, *, handled: bool) -> None:
    """Every place for a code has it; the work is done only if the fault comes after it."""
    (member,) = script.stable(1)
    before = script.world.cluster.group(GROUP)
    script.world.cluster.faults.fail_next(ask.api, FAILURE, handled=handled)
    send(ask, member)
    if not handled:
        answer = member.take()
        if answer.get("coordinators") or answer.get("groups"):
            answer.pop(CODE, None)  # of versions with one key or group
        assert set(codes(answer)) == {FAILURE}
        assert not has_changed(script, before)
    else:
        assert FAILURE in set(codes(member.take())) or ask.api in {
            ApiKey.OFFSET_DELETE,  # keeps the rejection of its own: the topic is subscribed
            ApiKey.DELETE_GROUPS,
        }
        assert has_changed(script, before) == ask.shows
    send(ask, member)
    assert FAILURE not in set(codes(member.take()))


@pytest.mark.parametrize("handled", [False, True], ids=["request", "response"])
def test_a_delay(ask: Ask, script: Script, *, handled: bool) -> None:
    """The response comes when the delay is over, once."""
    (member,) = script.stable(1)
    script.world.cluster.faults.delay(ask.api, 100, handled=handled)
    send(ask, member)
    script.world.advance(99)
    assert member.answers() == []
    script.world.advance(1)
    assert len(member.answers()) == 1
    script.world.advance(1_000)
    assert member.answers() == []


@pytest.mark.parametrize("handled", [False, True], ids=["request", "response"])
def test_a_connection_that_is_closed(ask: Ask, script: Script, *, handled: bool) -> None:
    """There is no response, and the work is done only if the fault comes after it."""
    (member,) = script.stable(1)
    before = script.world.cluster.group(GROUP)
    script.world.cluster.faults.disconnect(ask.api, handled=handled)
    send(ask, member)
    assert member.answers() == []
    assert member.client.stream.closed
    assert has_changed(script, before) == (handled and ask.shows)


@pytest.mark.parametrize("handled", [False, True], ids=["request", "response"])
def test_a_connection_that_hangs(ask: Ask, script: Script, *, handled: bool) -> None:
    """No response comes, also to a later request; the group lives on other connections."""
    (member,) = script.stable(1)
    before = script.world.cluster.group(GROUP)
    script.world.cluster.faults.drop(ask.api, handled=handled)
    send(ask, member)
    assert has_changed(script, before) == (handled and ask.shows)
    send(ask, member)
    script.world.advance(SESSION_MS)
    assert member.answers() == []
    found = script.ask(ApiKey.DESCRIBE_GROUPS, 0, groups=[GROUP])["groups"]
    assert [it["group_state"] for it in found] == ["Empty"]


def test_a_response_that_is_cut(ask: Ask, script: Script) -> None:
    """The first bytes arrive, then the connection ends."""
    (member,) = script.stable(1)
    script.world.cluster.faults.cut(ask.api, 5)
    send(ask, member)
    assert len(member.client.stream.outgoing) == 5
    assert member.client.stream.closed


def test_a_request_that_is_handled_twice(ask: Ask, script: Script) -> None:
    """It is answered once."""
    (member,) = script.stable(1)
    script.world.cluster.faults.duplicate(ask.api)
    send(ask, member)
    script.world.advance(1)
    assert len(member.answers()) == 1
    assert script.world.cluster.failures == ()
