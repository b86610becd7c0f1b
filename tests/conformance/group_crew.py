"""Members of one group at either broker, moved by hand, in chosen versions of the protocol.

Thread-safety: one thread.
"""

import itertools
import select
import struct
import uuid
from collections.abc import Mapping
from typing import Any

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from kprod.protocol.error_table import ErrorCode
from tests.conformance.sides import Side
from tests.conformance.wire import Target, Wire

LEVELS: Mapping[str, Mapping[ApiKey, int]] = {
    "lowest": {
        ApiKey.JOIN_GROUP: 0,
        ApiKey.SYNC_GROUP: 0,
        ApiKey.HEARTBEAT: 0,
        ApiKey.LEAVE_GROUP: 0,
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.OFFSET_FETCH: 1,
        ApiKey.OFFSET_DELETE: 0,
        ApiKey.DESCRIBE_GROUPS: 0,
        ApiKey.LIST_GROUPS: 0,
        ApiKey.DELETE_GROUPS: 0,
    },
    "middle": {
        ApiKey.JOIN_GROUP: 5,
        ApiKey.SYNC_GROUP: 3,
        ApiKey.HEARTBEAT: 3,
        ApiKey.LEAVE_GROUP: 3,
        ApiKey.OFFSET_COMMIT: 7,
        ApiKey.OFFSET_FETCH: 6,
        ApiKey.OFFSET_DELETE: 0,
        ApiKey.DESCRIBE_GROUPS: 4,
        ApiKey.LIST_GROUPS: 4,
        ApiKey.DELETE_GROUPS: 1,
    },
    "highest": {
        ApiKey.JOIN_GROUP: 9,
        ApiKey.SYNC_GROUP: 5,
        ApiKey.HEARTBEAT: 4,
        ApiKey.LEAVE_GROUP: 5,
        ApiKey.OFFSET_COMMIT: 9,
        ApiKey.OFFSET_FETCH: 9,
        ApiKey.OFFSET_DELETE: 0,
        ApiKey.DESCRIBE_GROUPS: 6,
        ApiKey.LIST_GROUPS: 5,
        ApiKey.DELETE_GROUPS: 2,
    },
}
_FIRST_JOIN_WITH_ID, _FIRST_JOIN_WITH_INSTANCE = 4, 5
SESSION_MS, REBALANCE_MS = 60_000, 120_000
_numbers = itertools.count(1)
_run = uuid.uuid4().hex[:8]


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, as in its metadata."""
    return struct.pack(">h", 0) + structure_codec("ConsumerProtocolSubscription", 0).encode(
        {"topics": list(topics)}
    )


class Crew:
    """A group of one test, and its members by name.

    Attributes:
        side: The broker.
        group_id: Unlike any other.
        target: A topic that exists.
        wires: Connections by member, so that a parked request holds up nobody else.
        ids: Member ids by name.
    """

    def __init__(self, side: Side, level: str, target: Target) -> None:
        """Start without members; the coordinator is there."""
        self.side = side
        self.target = target
        self.group_id = f"group-{_run}-{next(_numbers)}"
        self.wires: dict[str, Wire] = {}
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.generation = -1
        self._versions = LEVELS[level]
        while True:
            body = {"key": self.group_id, "key_type": 0}
            if side.ask(ApiKey.FIND_COORDINATOR, 1, body)["error_code"] == ErrorCode.NONE:
                state = side.ask(ApiKey.DESCRIBE_GROUPS, 0, {"groups": [self.group_id]})
                if state["groups"][0]["error_code"] == ErrorCode.NONE:
                    break

    def close(self) -> None:
        """Close all connections."""
        for wire in self.wires.values():
            wire.__exit__()

    def version(self, api: ApiKey) -> int:
        """The version that this crew speaks."""
        return self._versions[api]

    def wire(self, name: str) -> Wire:
        """A member's connection."""
        if name not in self.wires:
            self.wires[name] = self.side.connect()
        return self.wires[name]

    def send(self, name: str, api: ApiKey, body: Mapping[str, Any]) -> None:
        """Send a member's request, with the fields that its version has."""
        self.wire(name).send(api, self.version(api), body)

    def read(self, name: str, api: ApiKey) -> dict[str, Any]:
        """Wait for a member's answer."""
        return self.wire(name).read(api, self.version(api))

    def ask(self, name: str, api: ApiKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send and read."""
        self.send(name, api, body)
        return self.read(name, api)

    def join_body(self, name: str, **fields: Any) -> dict[str, Any]:
        """A join of a member as it is known."""
        body: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.ids.get(name, ""),
            "group_instance_id": self.instances.get(name),
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(self.target.topic)}],
        }
        return {**body, **fields}

    def join(self, name: str, **fields: Any) -> None:
        """Send a join that will be taken; ask for an id first where there are ids."""
        needs_id = name not in self.ids and name not in self.instances
        if needs_id and self.version(ApiKey.JOIN_GROUP) >= _FIRST_JOIN_WITH_ID:
            answer = self.ask(name, ApiKey.JOIN_GROUP, self.join_body(name, **fields))
            assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED, answer
            self.ids[name] = answer["member_id"]
        self.send(name, ApiKey.JOIN_GROUP, self.join_body(name, **fields))

    def joined(self, name: str) -> dict[str, Any]:
        """Wait for the response of a join that was taken."""
        answer = self.read(name, ApiKey.JOIN_GROUP)
        assert answer["error_code"] == ErrorCode.NONE, answer
        self.ids[name], self.generation = answer["member_id"], answer["generation_id"]
        return answer

    def sync_body(self, name: str, *others: str, **fields: Any) -> dict[str, Any]:
        """A sync; with names, of the leader that assigns to them."""
        body = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.ids.get(name, ""),
            "group_instance_id": self.instances.get(name),
            "assignments": [
                {"member_id": self.ids[it], "assignment": b"for " + it.encode()} for it in others
            ],
        }
        if self.version(ApiKey.SYNC_GROUP) >= 5:
            body |= {"protocol_type": "consumer", "protocol_name": "range"}
        return {**body, **fields}

    def heartbeat_body(self, name: str, **fields: Any) -> dict[str, Any]:
        """A heartbeat."""
        body = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.ids.get(name, ""),
            "group_instance_id": self.instances.get(name),
        }
        return {**body, **fields}

    def leave_body(self, *identities: tuple[str, str | None]) -> dict[str, Any]:
        """A leave of members by id and instance id; one in the lowest versions."""
        if self.version(ApiKey.LEAVE_GROUP) < 3:
            return {"group_id": self.group_id, "member_id": identities[0][0]}
        members = [{"member_id": it, "group_instance_id": other} for it, other in identities]
        return {"group_id": self.group_id, "members": members}

    def commit_body(self, name: str, **fields: Any) -> dict[str, Any]:
        """A commit of two partitions, the second of them unknown."""
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "text",
        }
        topics = [
            {
                "name": self.target.topic,
                "partitions": [partition, {**partition, "partition_index": 99}],
            }
        ]
        body = {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.ids.get(name, ""),
            "group_instance_id": self.instances.get(name),
            "topics": topics,
        }
        return {**body, **fields}

    def commit_beside(self) -> None:
        """Commit an offset of another group: a record in the same shard."""
        body = self.commit_body(
            "nobody", group_id=f"{self.group_id}-beside", generation_id_or_member_epoch=-1
        )
        self.ask("watcher", ApiKey.OFFSET_COMMIT, body)

    def described(self) -> dict[str, Any]:
        """The group, described; over a connection that nothing is parked on."""
        answer = self.ask("watcher", ApiKey.DESCRIBE_GROUPS, {"groups": [self.group_id]})
        (group,) = answer["groups"]
        return dict(group)

    def await_state(self, state: str, members: int) -> None:
        """Wait until the group has come so far; each question takes the broker's time."""
        while (now := self.described())["group_state"] != state or len(now["members"]) != members:
            pass

    def has_answer(self, name: str, *, wait_s: float) -> bool:
        """Whether something can be read on a member's connection."""
        ready, _, _ = select.select([self.wire(name)._socket], [], [], wait_s)
        return bool(ready)

    def bring_to(self, state: str) -> None:
        """Let A, the leader, and B come into a state of the group."""
        if state == "Unknown":
            return
        self.join("A")
        self.joined("A")
        if state != "Empty":
            self.join("B")
            self.await_state("PreparingRebalance", 2)
            self.join("A")
            self.joined("A")
            self.joined("B")
        if state == "CompletingRebalance":
            return
        members = ("A",) if state == "Empty" else ("A", "B")
        for name in members[1:]:
            self.send(name, ApiKey.SYNC_GROUP, self.sync_body(name))
        answer = self.ask("A", ApiKey.SYNC_GROUP, self.sync_body("A", *members))
        assert answer["error_code"] == ErrorCode.NONE, answer
        for name in members[1:]:
            assert self.read(name, ApiKey.SYNC_GROUP)["error_code"] == ErrorCode.NONE
        if state == "Empty":
            self.ask("A", ApiKey.LEAVE_GROUP, self.leave_body((self.ids["A"], None)))
            self.await_state("Empty", 0)
        elif state == "PreparingRebalance":
            self.join("C")
            self.await_state("PreparingRebalance", 3)

    def masked(self, value: Any) -> Any:
        """A response without what each broker chooses for itself: ids, hosts, texts, order."""
        names = {member_id: f"<{name}>" for name, member_id in self.ids.items()}
        if isinstance(value, dict):
            left_out = {"client_host", "error_message", "topic_id", "throttle_time_ms"}
            return {
                key: self.masked(names.get(item, _id_masked(key, item, self)))
                if isinstance(item, str)
                else self.masked(item)
                for key, item in value.items()
                if key not in left_out
            }
        if isinstance(value, list):
            return sorted((self.masked(it) for it in value), key=repr)
        if isinstance(value, bytes | memoryview):
            return bytes(value).replace(self.target.topic.encode(), b"<topic>")
        return value


def _id_masked(key: str, item: str, crew: Crew) -> str:
    """A name for ids that nobody had before, and for names of a run."""
    if key in {"member_id", "leader"} and item and item != "nobody":
        return "<new>"
    return {crew.group_id: "<group>", crew.target.topic: "<topic>"}.get(item, item)
