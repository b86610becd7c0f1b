"""A real run of the embedded broker's group coordinator, for the pictures of groups.

Two members on a manual clock: the first forms the group, the second joins, and then sends nothing
more until its session is over.
"""

from typing import TYPE_CHECKING, NamedTuple

from kprod.broker.group.classic_group import Group
from kprod.broker.group.state import GroupState
from kprod.broker.group.subscription import assigned_partitions
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Script, assignment
from tests.broker.world import TIMESTAMP_MS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tests.broker.group.scripts import Member

SESSION_MS = 6_000
STEP_MS = 1_300
"""From one request to the next: so long that their names fit beside each other."""


class Call(NamedTuple):
    """One request of a member.

    Attributes:
        member: Its name.
        sent_ms: When it was sent.
        answered_ms: When the response came.
        name: The API.
        result: The response, in a word.
    """

    member: str
    sent_ms: int
    answered_ms: int
    name: str
    result: str


class Move(NamedTuple):
    """A move of the group's state."""

    at_ms: int
    before: GroupState
    after: GroupState
    generation: int


class Run:
    """The run.

    Attributes:
        calls: Requests, in the order of their responses.
        moves: Moves of the group's state.
        end_ms: When it was over.
    """

    def __init__(self) -> None:
        """Run it."""
        self.calls: list[Call] = []
        self.moves: list[Move] = []
        self._waiting: dict[str, tuple[int, str]] = {}
        self._script = Script()
        self._start_ms = self._now_ms()
        # The coordinator may move a group on more than once in one request.
        move = Group.move

        def noted(group: Group, state: GroupState, timestamp_ms: int) -> None:
            before = group.state
            move(group, state, timestamp_ms)
            self.moves.append(Move(self._now_ms(), before, state, group.generation))

        Group.move = noted  # type: ignore[assignment,method-assign]
        try:
            self._play()
        finally:
            Group.move = move  # type: ignore[method-assign]
        self.end_ms = self._now_ms()

    def _play(self) -> None:
        first = self._script.member(session_timeout_ms=SESSION_MS)
        second = self._script.member(session_timeout_ms=SESSION_MS)
        self._members: dict[str, Member] = {"A": first, "B": second}
        self._join("A")
        self._join("A")
        self._sync("A", {"A": [0, 1]})
        self._join("B")
        self._heartbeat("A")
        self._join("B")  # waits for A
        self._heartbeat("A")
        self._join("A")
        self._sync("B", {})  # waits for the leader
        self._sync("A", {"A": [0], "B": [1]})
        self._heartbeat("B")
        self._heartbeat("A")
        while self.calls[-1].result != "rebalance":  # B is gone
            self._heartbeat("A")
        self._join("A")
        self._sync("A", {"A": [0, 1]})

    def _now_ms(self) -> int:
        return self._script.world.clock.timestamp_ms() - TIMESTAMP_MS

    def _join(self, name: str) -> None:
        member = self._members[name]
        body = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
        }
        self._ask(name, ApiKey.JOIN_GROUP, 9, body)

    def _sync(self, name: str, shares: "Mapping[str, list[int]]") -> None:
        member = self._members[name]
        given = {self._members[it].member_id: assignment("orders", v) for it, v in shares.items()}
        body = {
            "group_id": GROUP,
            "generation_id": member.generation,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": k, "assignment": v} for k, v in given.items()],
        }
        self._ask(name, ApiKey.SYNC_GROUP, 5, body)

    def _heartbeat(self, name: str) -> None:
        member = self._members[name]
        body = {
            "group_id": GROUP,
            "generation_id": member.generation,
            "member_id": member.member_id,
        }
        self._ask(name, ApiKey.HEARTBEAT, 4, body)

    def _ask(self, name: str, api: ApiKey, version: int, body: "Mapping[str, Any]") -> None:
        self._waiting[name] = (self._now_ms(), api.name)
        self._members[name].client.send(api, version, body)
        self._take()
        self._script.world.advance(STEP_MS)
        self._take()

    def _take(self) -> None:
        self._script.world.advance(0)
        for name, member in self._members.items():
            for answer in member.answers():
                sent_ms, api = self._waiting.pop(name)
                result = self._result(member, api, answer)
                self.calls.append(Call(name, sent_ms, self._now_ms(), _SHOWN[api], result))

    def _result(self, member: "Member", api: str, answer: "Mapping[str, Any]") -> str:
        code = answer["error_code"]
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer["member_id"]
            return "an id"
        if code:
            return "rebalance" if code == ErrorCode.REBALANCE_IN_PROGRESS else ErrorCode(code).name
        if api == ApiKey.JOIN_GROUP.name:
            member.generation = answer["generation_id"]
            is_leader = answer["leader"] == member.member_id
            return f"gen. {member.generation}" + (", leads" if is_leader else "")
        if api == ApiKey.SYNC_GROUP.name:
            shares = assigned_partitions(answer["assignment"]) or {}
            return "gets " + ", ".join(str(it) for it in shares["orders"])
        return "good"


_SHOWN = {"JOIN_GROUP": "JoinGroup", "SYNC_GROUP": "SyncGroup", "HEARTBEAT": "Heartbeat"}
