"""Requests that a client can make of a group, by name, for tests that make them at both brokers.

`EVENTS` exist in every version. `STATIC` need instance ids (KIP-345), `PENDING` ids that are given
out before they are used (KIP-394), `NEWEST` the fields of the highest versions, and `ODD` are made
by no sound client.

Thread-safety: pure functions of a crew.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kprod.protocol.api import ApiKey
from tests.conformance.group_crew import Crew, subscription

Request = tuple[str, ApiKey, dict[str, Any]]
"""The name of the member or administrator, the API, and the fields."""
Event = Callable[[Crew], Request]

_ADMIN = "admin"
_FIRST_FETCH_WITH_TOPIC_IDS = 10
_METADATA_BYTES_MAX = 4_096
_NO_TOPIC_ID = uuid.UUID(int=0x6B70_726F_64)


def join(name: str, /, **fields: Any) -> Event:
    """A join of a member as it is known, with some fields changed."""
    return lambda crew: (name, ApiKey.JOIN_GROUP, crew.join_body(name, **fields))


def join_with(name: str, /, *protocols: str, topics: tuple[str, ...] = (), **fields: Any) -> Event:
    """A join with other protocols, or with more topics."""

    def event(crew: Crew) -> Request:
        metadata = subscription(crew.target.topic, *topics)
        listed = [{"name": it, "metadata": metadata} for it in protocols or crew.protocols]
        return join(name, protocols=listed, **fields)(crew)

    return event


def sync(name: str, /, *others: str, **fields: Any) -> Event:
    """A sync; with names, of a leader that assigns to those of them that are known."""

    def event(crew: Crew) -> Request:
        known = [it for it in others if it in crew.ids]
        return name, ApiKey.SYNC_GROUP, crew.sync_body(name, *known, **fields)

    return event


def heartbeat(name: str, /, **fields: Any) -> Event:
    """A heartbeat."""
    return lambda crew: (name, ApiKey.HEARTBEAT, crew.heartbeat_body(name, **fields))


def leave(*names: str, instances: tuple[str | None, ...] = ()) -> Event:
    """A leave of members by name, each with an instance id if they are given; "" is no id."""

    def event(crew: Crew) -> Request:
        ids = [it and crew.ids.get(it, "nobody") for it in names]
        beside = instances or (None,) * len(ids)
        body = crew.leave_body(*zip(ids, beside, strict=True))
        return _ADMIN, ApiKey.LEAVE_GROUP, body

    return event


def commit(name: str, /, **fields: Any) -> Event:
    """A commit of a partition, and of one that does not exist."""
    return lambda crew: (name, ApiKey.OFFSET_COMMIT, crew.commit_body(name, **fields))


def commit_of(name: str, /, **fields: Any) -> Event:
    """A commit of one partition, with some fields of its topic changed."""

    def event(crew: Crew) -> Request:
        entry = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        topic = {"name": crew.target.topic, "topic_id": crew.target.topic_id}
        changed = {**topic, "partitions": [entry], **fields}
        return commit(name, topics=[changed])(crew)

    return event


def fetch(*, is_strict: bool = False, **fields: Any) -> Event:
    """A fetch of the offsets of a partition, and of one that does not exist."""

    def event(crew: Crew) -> Request:
        topic = {"name": crew.target.topic, "partition_indexes": [0, 99]}
        body: dict[str, Any] = {"group_id": crew.group_id, "topics": [topic], **fields}
        if crew.versions[ApiKey.OFFSET_FETCH] >= _FIRST_FETCH_WITH_TOPIC_IDS:  # and many groups
            known = {crew.target.topic: crew.target.topic_id}
            listed = body["topics"] and [
                it | {"topic_id": known.get(it["name"], _NO_TOPIC_ID)} for it in body["topics"]
            ]
            body = {"require_stable": is_strict, "groups": [body | {"topics": listed}]}
        return _ADMIN, ApiKey.OFFSET_FETCH, body

    return event


def delete_offsets(**fields: Any) -> Event:
    """A deletion of offsets, of partitions that exist and that do not."""

    def event(crew: Crew) -> Request:
        partitions = [{"partition_index": 0}, {"partition_index": 99}]
        topics = [
            {"name": crew.target.topic, "partitions": partitions},
            {"name": "nowhere", "partitions": partitions[:1]},
        ]
        body = {"group_id": crew.group_id, "topics": topics, **fields}
        return _ADMIN, ApiKey.OFFSET_DELETE, body

    return event


def delete(*names: str) -> Event:
    """A deletion of groups; the crew's own, twice, without names."""

    def event(crew: Crew) -> Request:
        listed = list(names) or [crew.group_id, crew.group_id]
        return _ADMIN, ApiKey.DELETE_GROUPS, {"groups_names": listed}

    return event


def describe(*names: str) -> Event:
    """A description of the crew's group, and of others."""

    def event(crew: Crew) -> Request:
        return _ADMIN, ApiKey.DESCRIBE_GROUPS, {"groups": [crew.group_id, *names]}

    return event


EVENTS: Mapping[str, Event] = {
    "join, new": join("D"),
    "join, new, other type": join("D", protocol_type="connect"),
    "join, new, no type": join("D", protocol_type=""),
    "join, new, no protocols": join("D", protocols=[]),
    "join, new, foreign protocol": join("D", protocols=[{"name": "odd", "metadata": b""}]),
    "join, no group": join("D", group_id=""),
    "join, session too short": join("D", session_timeout_ms=1),
    "join, session too long": join("D", session_timeout_ms=2**31 - 1),
    "join, unknown id": join("D", member_id="nobody"),
    "join, leader, same": join("A"),
    "join, follower, same": join("B"),
    "join, leader, other": join_with("A", topics=("more",)),
    "join, follower, other": join_with("B", topics=("more",)),
    "sync, leader": sync("A", "A"),
    "sync, follower": sync("B"),
    "sync, unknown id": sync("B", member_id="nobody"),
    "sync, old generation": sync("B", generation_id=0),
    "sync, no group": sync("B", group_id=""),
    "heartbeat, leader": heartbeat("A"),
    "heartbeat, follower": heartbeat("B"),
    "heartbeat, unknown id": heartbeat("B", member_id="nobody"),
    "heartbeat, old generation": heartbeat("B", generation_id=0),
    "heartbeat, no group": heartbeat("B", group_id=""),
    "leave, leader": leave("A"),
    "leave, follower": leave("B"),
    "leave, unknown id": leave("nobody"),
    "leave, no group": lambda crew: (
        *leave("B")(crew)[:2],
        {**leave("B")(crew)[2], "group_id": ""},
    ),
    "commit, member": commit("B"),
    "commit, unknown id": commit("B", member_id="nobody"),
    "commit, old generation": commit("B", generation_id_or_member_epoch=0),
    "commit, no generation": commit("B", generation_id_or_member_epoch=-1),
    "commit, nobody": commit("B", generation_id_or_member_epoch=-1, member_id=""),
    "commit, no group": commit(
        "B", generation_id_or_member_epoch=-1, member_id="", group_id="", group_instance_id=None
    ),
    "commit, unknown topic": commit_of("B", name="nowhere", topic_id=_NO_TOPIC_ID),
    "commit, long text": commit_of(
        "B",
        partitions=[
            {
                "partition_index": 0,
                "committed_offset": 7,
                "committed_metadata": "x" * (_METADATA_BYTES_MAX + 1),
            }
        ],
    ),
    "fetch": fetch(),
    "fetch, unknown topic": fetch(topics=[{"name": "nowhere", "partition_indexes": [0]}]),
    "delete offsets": delete_offsets(),
    "delete": delete(),
    "describe": describe(),
}
"""Of a group whose leader is A and whose follower is B, in every version."""

STATIC: Mapping[str, Event] = {
    "join, new": join("D", group_instance_id="instance D"),
    "join, leader again": join("E", group_instance_id="instance A"),
    "join, follower again": join("E", group_instance_id="instance B"),
    "join, follower again, more topics": join_with(
        "E", topics=("more",), group_instance_id="instance B"
    ),
    "join, leader again, other choice": join_with(
        "E", "roundrobin", group_instance_id="instance A"
    ),
    "join, follower again, other choice": join_with(
        "E", "roundrobin", group_instance_id="instance B"
    ),
    "join, follower again, same choice": join_with("E", "range", group_instance_id="instance B"),
    "join, leader, same": join("A"),
    "join, follower, same": join("B"),
    "join, unknown instance": join("B", group_instance_id="nobody"),
    "join, another's instance": join("B", group_instance_id="instance A"),
    "sync, follower": sync("B"),
    "sync, unknown instance": sync("B", group_instance_id="nobody"),
    "sync, another's instance": sync("B", group_instance_id="instance A"),
    "heartbeat, follower": heartbeat("B"),
    "heartbeat, unknown instance": heartbeat("B", group_instance_id="nobody"),
    "heartbeat, another's instance": heartbeat("B", group_instance_id="instance A"),
    "commit, follower": commit("B"),
    "commit, unknown instance": commit("B", group_instance_id="nobody"),
    "commit, another's instance": commit("B", group_instance_id="instance A"),
    "leave, by id": leave("B"),
    "leave, by instance": leave("", instances=("instance B",)),
    "leave, by both": leave("B", instances=("instance B",)),
    "leave, another's instance": leave("B", instances=("instance A",)),
    "leave, unknown instance": leave("", instances=("nobody",)),
    "leave, both and a stranger": leave(
        "A", "", "nobody", instances=("instance A", "instance B", None)
    ),
    "describe": describe(),
}
"""Of a group whose members A and B are static."""

PENDING: Mapping[str, Event] = {
    "join": join("P"),
    "join, with an instance": join("P", group_instance_id="instance P"),
    "join, other type": join("P", protocol_type="connect"),
    "join, leader": join("A"),
    "join, follower": join("B"),
    "sync": sync("P"),
    "heartbeat": heartbeat("P"),
    "commit": commit("P"),
    "leave": leave("P"),
    "delete": delete(),
    "describe": describe(),
}
"""Of a group that has given out P's id, which P has not used yet."""

NEWEST: Mapping[str, Event] = {
    "sync, other type": sync("B", protocol_type="connect"),
    "sync, other name": sync("B", protocol_name="odd"),
    "sync, no type": sync("B", protocol_type=None),
    "sync, no name": sync("B", protocol_name=None),
    "fetch, all": fetch(topics=None),
    "fetch, stable": fetch(is_strict=True),
    "fetch, no group": fetch(group_id=""),
    "fetch, unknown group": fetch(group_id="nobody"),
    "fetch, all of an unknown group": fetch(group_id="nobody", topics=None),
}

ODD: Mapping[str, Event] = {
    "join, negative rebalance timeout": join("D", rebalance_timeout_ms=-1),
    "join, negative session timeout": join("D", session_timeout_ms=-1),
    "join, one protocol twice": join_with("D", "range", "range"),
    "sync, generation -1": sync("B", generation_id=-1),
    "heartbeat, generation -1": heartbeat("B", generation_id=-1),
    "leave, one member twice": leave("A", "A"),
    "leave, nobody": lambda crew: (
        _ADMIN,
        ApiKey.LEAVE_GROUP,
        {"group_id": crew.group_id, "members": []},
    ),
    "leave, empty id": leave("", "", instances=(None, "")),
    "commit, no topics": commit("B", topics=[]),
    "commit, one partition twice": commit_of(
        "B",
        partitions=[
            {"partition_index": 0, "committed_offset": it, "committed_metadata": ""}
            for it in (9, 8)
        ],
    ),
    "fetch, no topics": fetch(topics=[]),
    "delete offsets, no topics": delete_offsets(topics=[]),
    "delete offsets, unknown topic": delete_offsets(
        topics=[{"name": "nowhere", "partitions": [{"partition_index": 0}]}]
    ),
    "describe, one twice and an empty name": lambda crew: describe(crew.group_id, "")(crew),
    "delete, empty name": delete(""),
    "delete, nothing": lambda _: (_ADMIN, ApiKey.DELETE_GROUPS, {"groups_names": []}),
}
