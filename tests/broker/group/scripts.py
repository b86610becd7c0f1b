"""Group members that a test moves by hand, one request at a time, on a manual clock."""

import struct
from collections.abc import Mapping
from typing import Any

from kprod.broker import EmbeddedConfig
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from kprod.protocol.error_table import ErrorCode
from tests.broker.world import Client, World

SESSION_MS = 10_000
REBALANCE_MS = 60_000
GROUP = "group"


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, as in its metadata."""
    return struct.pack(">h", 0) + structure_codec("ConsumerProtocolSubscription", 0).encode(
        {"topics": list(topics)}
    )


def assignment(topic: str, partitions: list[int]) -> bytes:
    """A consumer's assignment, as its leader sends it."""
    fields = {"assigned_partitions": [{"topic": topic, "partitions": partitions}]}
    return struct.pack(">h", 0) + structure_codec("ConsumerProtocolAssignment", 0).encode(fields)


class Script:
    """One group, and members by name.

    Attributes:
        world: The cluster.
    """

    def __init__(self, *, brokers: int = 1, **settings: int) -> None:
        """Open a cluster with one partition of `__consumer_offsets`."""
        config = EmbeddedConfig(offsets_topic_num_partitions=1, **settings)  # type: ignore[arg-type]
        self.world = World(brokers=brokers, config=config)
        self.control = self.world.client()
        self.find()

    def find(self) -> int:
        """The coordinator's broker id."""
        answer = self.control.ask(ApiKey.FIND_COORDINATOR, 0, {"key": GROUP})
        assert answer["error_code"] == ErrorCode.NONE
        node_id: int = answer["node_id"]
        return node_id

    def member(self, *, broker: int = 0, **fields: Any) -> "Member":
        """A member that has done nothing yet."""
        return Member(self.world.client(broker), fields)

    @property
    def state(self) -> str:
        """The group's state."""
        return self.world.cluster.group(GROUP).state

    @property
    def generation(self) -> int:
        """The group's generation."""
        return self.world.cluster.group(GROUP).generation

    def member_bytes(self) -> tuple[int, int]:
        """The counted bytes of all members' metadata, and their sum over the members."""
        groups = self.world.cluster._kprod.engine.state.groups
        members = [
            member
            for shard in groups._shards.values()
            for group in shard.groups.values()
            for member in group.members.values()
        ]
        return groups._memory.used_bytes, sum(it.metadata_bytes for it in members)

    def ask(self, api: ApiKey, version: int, **body: Any) -> dict[str, Any]:
        """Ask over the connection that nobody's request is parked on."""
        return self.control.ask(api, version, body)

    def stable(self, count: int, **fields: Any) -> list["Member"]:
        """A group of `count` members in Stable, the first one its leader."""
        members = [self.member(**fields) for _ in range(count)]
        members[0].join()
        if count > 1:
            members[0].take_join()
            for member in members[1:]:
                member.join()
            members[0].join()  # the others wait for it
        for member in members:
            assert member.take_join()["error_code"] == ErrorCode.NONE
        self.sync(members)
        return members

    def sync(self, members: list["Member"]) -> None:
        """Let everybody sync, the leader last."""
        for member in members[1:]:
            member.sync()
        members[0].sync({it.member_id: it.member_id.encode() for it in members})
        for member in members:
            assert member.take()["error_code"] == ErrorCode.NONE
        assert self.state == "Stable"


class Member:
    """One member on a connection of its own.

    Attributes:
        member_id: Member id that the coordinator assigned.
        generation: Generation of its last successful join.
    """

    def __init__(self, client: Client, fields: Mapping[str, Any]) -> None:
        """Know what its joins say."""
        self.client = client
        self.member_id = ""
        self.generation = -1
        self.join_version = 9
        self.fields = dict(fields)

    def join(self, **fields: Any) -> None:
        """Send a JoinGroup, with an id asked for first if it has none."""
        body = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("orders")}],
            **self.fields,
            **fields,
        }
        self.client.send(ApiKey.JOIN_GROUP, self.join_version, body)
        self.client.world.advance(0)
        is_dynamic = body.get("group_instance_id") is None
        if not body["member_id"] and is_dynamic and self.join_version >= 4:
            answer = self.take()
            if answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer["member_id"]
                self.join(**fields)

    def take_join(self) -> dict[str, Any]:
        """Take the response of a join, and what it says about this member."""
        answer = self.take()
        if answer["error_code"] == ErrorCode.NONE:
            self.member_id, self.generation = answer["member_id"], answer["generation_id"]
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None, **fields: Any) -> None:
        """Send a SyncGroup."""
        body = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.fields.get("group_instance_id"),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": key, "assignment": value}
                for key, value in (assignments or {}).items()
            ],
            **fields,
        }
        self.client.send(ApiKey.SYNC_GROUP, 5, body)

    def heartbeat(self, **fields: Any) -> int:
        """Send a Heartbeat; returns its error code."""
        body = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.fields.get("group_instance_id"),
            **fields,
        }
        code: int = self.client.ask(ApiKey.HEARTBEAT, 4, body)["error_code"]
        return code

    def leave(self) -> int:
        """Send a LeaveGroup of version 0; returns its error code."""
        body = {"group_id": GROUP, "member_id": self.member_id}
        code: int = self.client.ask(ApiKey.LEAVE_GROUP, 0, body)["error_code"]
        return code

    def commit(self, offset: int, *, topic: str = "orders", **fields: Any) -> int:
        """Commit partition 0; returns its error code."""
        self.send_commit(offset, topic=topic, **fields)
        return code_of(self.take())

    def send_commit(self, offset: int, *, topic: str = "orders", **fields: Any) -> None:
        """Send a commit of partition 0."""
        version = fields.pop("version", 9)
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        body = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": [{"name": topic, "partitions": [partition]}],
            **fields,
        }
        self.client.send(ApiKey.OFFSET_COMMIT, version, body)

    def answers(self) -> list[dict[str, Any]]:
        """Answers that have come."""
        return list(self.client.answers().values())

    def take(self) -> dict[str, Any]:
        """The one response that has come."""
        (answer,) = self.answers()
        return answer


def code_of(commit: Mapping[str, Any]) -> int:
    """The error code of a commit of one partition."""
    ((partition,),) = [[it for topic in commit["topics"] for it in topic["partitions"]]]
    code: int = partition["error_code"]
    return code
