"""Groups: every state and every request that a client can make of it, at both brokers.

A group is brought into a state, one request is made, and its response is compared (or that
it waits), and the group as it is described afterwards.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from tests.conformance.group_crew import LEVELS, Crew, subscription
from tests.conformance.sides import Sides
from tests.conformance.wire import Target

STATES = ["Unknown", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
Request = tuple[str, ApiKey, dict[str, Any]]
Event = Callable[[Crew], Request]


def other_protocols(crew: Crew) -> list[dict[str, Any]]:
    """The same protocol with other metadata."""
    return [{"name": "range", "metadata": subscription(crew.target.topic, "more")}]


def _join(name: str, **fields: Any) -> Event:
    return lambda crew: (name, ApiKey.JOIN_GROUP, crew.join_body(name, **fields))


def _sync(name: str, *others: str, **fields: Any) -> Event:
    def event(crew: Crew) -> Request:
        known = [it for it in others if it in crew.ids]
        return name, ApiKey.SYNC_GROUP, crew.sync_body(name, *known, **fields)

    return event


def _heartbeat(name: str, **fields: Any) -> Event:
    return lambda crew: (name, ApiKey.HEARTBEAT, crew.heartbeat_body(name, **fields))


def _leave(*names: str) -> Event:
    def event(crew: Crew) -> Request:
        identities = [(crew.ids.get(it, "nobody"), None) for it in names]
        return "admin", ApiKey.LEAVE_GROUP, crew.leave_body(*identities)

    return event


def _commit(name: str, **fields: Any) -> Event:
    return lambda crew: (name, ApiKey.OFFSET_COMMIT, crew.commit_body(name, **fields))


def _delete_offsets(crew: Crew) -> Request:
    partitions = [{"partition_index": 0}, {"partition_index": 99}]
    topics = [
        {"name": crew.target.topic, "partitions": partitions},
        {"name": "nowhere", "partitions": partitions[:1]},
    ]
    return "admin", ApiKey.OFFSET_DELETE, {"group_id": crew.group_id, "topics": topics}


def _fetch(crew: Crew) -> Request:
    topics = [{"name": crew.target.topic, "partition_indexes": [0, 99]}]
    body = {"group_id": crew.group_id, "topics": topics}
    if crew.version(ApiKey.OFFSET_FETCH) >= 8:
        body = {"groups": [body]}
    return "admin", ApiKey.OFFSET_FETCH, body


EVENTS: dict[str, Event] = {
    "join, new": _join("D"),
    "join, new, other type": _join("D", protocol_type="connect"),
    "join, new, no type": _join("D", protocol_type=""),
    "join, new, no protocols": _join("D", protocols=[]),
    "join, new, foreign protocol": _join("D", protocols=[{"name": "odd", "metadata": b""}]),
    "join, no group": _join("D", group_id=""),
    "join, session too short": _join("D", session_timeout_ms=1),
    "join, session too long": _join("D", session_timeout_ms=2**31 - 1),
    "join, unknown id": _join("D", member_id="nobody"),
    "join, leader, same": _join("A"),
    "join, follower, same": _join("B"),
    "join, leader, other": lambda crew: _join("A", protocols=other_protocols(crew))(crew),
    "join, follower, other": lambda crew: _join("B", protocols=other_protocols(crew))(crew),
    "sync, leader": _sync("A", "A"),
    "sync, follower": _sync("B"),
    "sync, unknown id": _sync("B", member_id="nobody"),
    "sync, old generation": _sync("B", generation_id=0),
    "sync, no group": _sync("B", group_id=""),
    "heartbeat, leader": _heartbeat("A"),
    "heartbeat, follower": _heartbeat("B"),
    "heartbeat, unknown id": _heartbeat("B", member_id="nobody"),
    "heartbeat, old generation": _heartbeat("B", generation_id=0),
    "heartbeat, no group": _heartbeat("B", group_id=""),
    "leave, leader": _leave("A"),
    "leave, follower": _leave("B"),
    "leave, unknown id": _leave("nobody"),
    "commit, member": _commit("B"),
    "commit, unknown id": _commit("B", member_id="nobody"),
    "commit, old generation": _commit("B", generation_id_or_member_epoch=0),
    "commit, no generation": _commit("B", generation_id_or_member_epoch=-1),
    "commit, nobody": _commit("B", generation_id_or_member_epoch=-1, member_id=""),
    "fetch": _fetch,
    "delete offsets": _delete_offsets,
    "delete": lambda crew: (
        "admin",
        ApiKey.DELETE_GROUPS,
        {"groups_names": [crew.group_id, crew.group_id]},
    ),
    "describe": lambda crew: ("admin", ApiKey.DESCRIBE_GROUPS, {"groups": [crew.group_id]}),
}


ODD: dict[str, Event] = {
    "join, negative rebalance timeout": _join("D", rebalance_timeout_ms=-1),
    "join, negative session timeout": _join("D", session_timeout_ms=-1),
    "sync, generation -1": _sync("B", generation_id=-1),
    "heartbeat, generation -1": _heartbeat("B", generation_id=-1),
    "leave, one member twice": _leave("A", "A"),
    "leave, nobody": lambda crew: (
        "admin",
        ApiKey.LEAVE_GROUP,
        {"group_id": crew.group_id, "members": []},
    ),
    "leave, empty id": lambda crew: (
        "admin",
        ApiKey.LEAVE_GROUP,
        crew.leave_body(("", None), ("", "")),
    ),
    "commit, no topics": _commit("B", topics=[]),
    "describe, one twice and an empty name": lambda crew: (
        "admin",
        ApiKey.DESCRIBE_GROUPS,
        {"groups": [crew.group_id, crew.group_id, ""]},
    ),
    "delete, empty name": lambda _: ("admin", ApiKey.DELETE_GROUPS, {"groups_names": [""]}),
}
"""Requests that no sound client makes, in versions that have every field."""


@pytest.fixture(scope="module")
def places(sides: Sides) -> dict[str, Target]:
    """A topic on each side.

    Returns:
        Its first partition, by side.
    """
    return {side.name: side.create("grouped", partitions=2) for side in sides}


@pytest.fixture
def crews(sides: Sides, places: dict[str, Target], level: str) -> Iterator[list[Crew]]:
    """A crew on each side, the embedded broker's first.

    Yields:
        Both.
    """
    both = [Crew(side, level, places[side.name]) for side in sides]
    yield both
    for crew in both:
        crew.close()


def outcome(crew: Crew, event: Event, *, waits: bool | None) -> tuple[Any, Any]:
    """Make a request.

    Args:
        crew: In its state.
        event: The request.
        waits: Whether it waited at the other broker; None if this is the first.

    Returns:
        The response, or that there is none, and the group described.
    """
    name, api, body = event(crew)
    if waits is None or waits:
        crew.send(name, api, body)
        # The embedded broker has one thread: what it answers at once is there already.
        crew.described()
        crew.described()
        if not crew.has_answer(name, wait_s=0.05):
            return "waits", crew.masked(crew.described())
        answer = crew.read(name, api)
    else:
        answer = crew.ask(name, api, body)
    described = crew.described()
    if described["group_state"] == "Dead":
        # A group that a rejected join made is seen at Kafka with the shard's next record only.
        crew.commit_beside()
        described = crew.described()
    return crew.masked(answer), crew.masked(described)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_a_request_in_a_state(crews: list[Crew], state: str, event: str) -> None:
    """Answer and group are the same at both brokers."""
    embedded, kafka = crews
    for crew in crews:
        crew.bring_to(state)

    ours = outcome(embedded, EVENTS[event], waits=None)
    theirs = outcome(kafka, EVENTS[event], waits=ours[0] == "waits")

    assert ours == theirs


@pytest.mark.parametrize("level", [it for it in LEVELS if it != "lowest"])
@pytest.mark.parametrize("event", ODD)
@pytest.mark.parametrize("state", ["Unknown", "Stable"])
def test_an_odd_request(crews: list[Crew], state: str, event: str) -> None:
    """It is answered as Kafka answers it."""
    embedded, kafka = crews
    for crew in crews:
        crew.bring_to(state)
    ours = outcome(embedded, ODD[event], waits=None)
    assert ours == outcome(kafka, ODD[event], waits=ours[0] == "waits")
