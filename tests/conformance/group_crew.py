"""Members of one group at either broker, moved by hand, in chosen versions of the protocol.

Thread-safety: one thread.
"""

import struct
from collections.abc import Mapping
from typing import Any

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from kprod.protocol.error_table import ErrorCode
from tests.conformance.group_log import GroupLog, Told
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
        ApiKey.OFFSET_COMMIT: 10,
        ApiKey.OFFSET_FETCH: 10,
        ApiKey.OFFSET_DELETE: 0,
        ApiKey.DESCRIBE_GROUPS: 6,
        ApiKey.LIST_GROUPS: 5,
        ApiKey.DELETE_GROUPS: 2,
    },
}
_FIRST_JOIN_WITH_ID, _FIRST_SYNC_WITH_PROTOCOL, _FIRST_LEAVE_OF_MANY = 4, 5, 3
SESSION_MS, REBALANCE_MS = 60_000, 120_000
CREATE_VERSION = 5


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, as in its metadata."""
    return struct.pack(">h", 0) + structure_codec("ConsumerProtocolSubscription", 0).encode(
        {"topics": list(topics)}
    )


def topic_of(side: Side, name: str) -> Target:
    """A topic with this very name and three partitions, made if it is not there."""
    entry = {"name": name, "num_partitions": 3, "replication_factor": 1}
    side.ask(ApiKey.CREATE_TOPICS, CREATE_VERSION, {"topics": [entry], "timeout_ms": 30_000})
    while (topic_id := side.led(name, 3)) is None:
        pass  # each question takes the broker's time
    return Target(name, topic_id)


def await_coordinator(side: Side, group_id: str) -> None:
    """Wait until a group's coordinator is there; the first question makes the topic of offsets."""
    while True:
        body = {"key": group_id, "key_type": 0}
        if side.ask(ApiKey.FIND_COORDINATOR, 1, body)["error_code"] == ErrorCode.NONE:
            state = side.ask(ApiKey.DESCRIBE_GROUPS, 0, {"groups": [group_id]})
            if state["groups"][0]["error_code"] == ErrorCode.NONE:
                break


class Crew:
    """A group of one test, and its members by name.

    Attributes:
        side: The broker.
        group_id: Unlike any other, and the same at both brokers.
        target: A topic that exists.
        wires: Connections by member, so that a parked request holds up nobody else.
        ids: Member ids by name.
        names: Names by member id, of all ids that were ever learned.
        instances: Instance ids of static members by name.
        versions: The version of each API that the crew uses.
        protocol_type: The members' protocol type.
        protocols: Names of the protocols that they support.
        session_ms: Their session timeout.
        rebalance_ms: Their rebalance timeout.
        log: The group's records.
    """

    def __init__(self, side: Side, level: str, target: Target, group_id: str) -> None:
        """Start without members; the coordinator is there."""
        self.side = side
        self.target = target
        self.group_id = group_id
        self.wires: dict[str, Wire] = {}
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.generation = -1
        self.protocol_type = "consumer"
        self.protocols: tuple[str, ...] = ("range",)
        self.session_ms, self.rebalance_ms = SESSION_MS, REBALANCE_MS
        self.versions = LEVELS[level]
        await_coordinator(side, group_id)
        self.log = GroupLog(side, group_id)

    def close(self) -> None:
        """Close all connections."""
        for wire in self.wires.values():
            wire.__exit__()

    def wire(self, name: str) -> Wire:
        """A member's connection."""
        if name not in self.wires:
            self.wires[name] = self.side.connect()
        return self.wires[name]

    def send(self, name: str, api: ApiKey, body: Mapping[str, Any]) -> None:
        """Send a member's request, with the fields that its version has."""
        self.wire(name).send(api, self.versions[api], body)

    def read(self, name: str, api: ApiKey) -> dict[str, Any]:
        """Wait for a member's answer."""
        return self.wire(name).read(api, self.versions[api])

    def ask(self, name: str, api: ApiKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send and read."""
        self.send(name, api, body)
        return self.read(name, api)

    def join_body(self, name: str, **fields: Any) -> dict[str, Any]:
        """A join of a member as it is known."""
        body: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.ids.get(name, ""),
            "group_instance_id": self.instances.get(name),
            "protocol_type": self.protocol_type,
            "protocols": [
                {"name": it, "metadata": subscription(self.target.topic)} for it in self.protocols
            ],
        }
        return {**body, **fields}

    def join(self, name: str, **fields: Any) -> None:
        """Send a join that will be taken; ask for an id first where there are ids."""
        needs_id = name not in self.ids and name not in self.instances
        if needs_id and self.versions[ApiKey.JOIN_GROUP] >= _FIRST_JOIN_WITH_ID:
            self.ask_for_id(name, **fields)
        self.send(name, ApiKey.JOIN_GROUP, self.join_body(name, **fields))

    def ask_for_id(self, name: str, **fields: Any) -> None:
        """Let a dynamic member get its id, and not use it yet."""
        answer = self.ask(name, ApiKey.JOIN_GROUP, self.join_body(name, **fields))
        assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED, answer
        self._learn(name, answer["member_id"])

    def _learn(self, name: str, member_id: str) -> None:
        """Note a member's id; a static member may get another one."""
        self.ids[name] = member_id
        if member_id not in self.names:
            is_other = name in self.names.values()
            self.names[member_id] = f"{name} again" if is_other else name

    def joined(self, name: str) -> dict[str, Any]:
        """Wait for the response of a join that was taken."""
        answer = self.read(name, ApiKey.JOIN_GROUP)
        assert answer["error_code"] == ErrorCode.NONE, answer
        self._learn(name, answer["member_id"])
        self.generation = answer["generation_id"]
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
        if self.versions[ApiKey.SYNC_GROUP] >= _FIRST_SYNC_WITH_PROTOCOL:
            body |= {"protocol_type": self.protocol_type, "protocol_name": self.protocols[0]}
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
        if self.versions[ApiKey.LEAVE_GROUP] < _FIRST_LEAVE_OF_MANY:
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
                "topic_id": self.target.topic_id,
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

    def records(self) -> list[Told]:
        """All records of the group; those that nobody waits for are written before another's."""
        self.commit_beside()
        return self.log.told(self.names)

    def described(self) -> dict[str, Any]:
        """The group, described; over a connection that nothing is parked on."""
        answer = self.ask("watcher", ApiKey.DESCRIBE_GROUPS, {"groups": [self.group_id]})
        (group,) = answer["groups"]
        return dict(group)

    def await_state(self, state: str, members: int) -> None:
        """Wait until the group has come so far; each question takes the broker's time."""
        while (now := self.described())["group_state"] != state or len(now["members"]) != members:
            pass

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
        names = {member_id: f"<{name}>" for member_id, name in self.names.items()}
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
