"""The coordinator and a literal model answer random requests alike, over random times and moves."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kprod.protocol.api import ApiKey
from tests.broker.group.scripts import GROUP, Member, Script, subscription
from tests.oracle.group_model import MEMBER_ID_REQUIRED, GroupModel

PROTOCOLS = st.permutations(["range", "sticky", "cooperative"]).flatmap(
    lambda names: st.integers(1, 3).map(lambda count: tuple(names[:count]))
)
TOPICS = st.sampled_from(["orders", "others"])


class Coordinator(RuleBasedStateMachine):
    """Both, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.count = 0
        self.open: dict[int, Member] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.ids: list[str] = []

    @initialize(delay=st.sampled_from([0, 3_000]))
    def begin(self, delay: int) -> None:
        """A cluster of two brokers, and a model without a group."""
        self.script = Script(
            brokers=2,
            group_initial_rebalance_delay_ms=delay,
            offsets_retention_check_interval_ms=1 << 40,
        )
        self.model = GroupModel(delay)
        self.start_ms = self.script.world.clock.now_ms()
        self.broker = self.script.find()

    @rule(
        names=PROTOCOLS,
        topic=TOPICS,
        instance=st.sampled_from([None, None, "one", "two"]),
        version=st.sampled_from([3, 9]),
    )
    def join_new(
        self, names: tuple[str, ...], topic: str, instance: str | None, version: int
    ) -> None:
        """A join without an id."""
        if instance is not None:
            version = 9
        fields = self.fields(names, topic, instance)
        before = set(self.view_ids())
        number = self.send(ApiKey.JOIN_GROUP, version, self.join_body("", fields))
        answer = self.peek(number)
        if answer is not None and answer["error_code"] == MEMBER_ID_REQUIRED:
            member_id = answer["member_id"]
        else:
            (member_id,) = (set(self.view_ids()) - before) or {"none"}
        self.ids.append(member_id)
        self.model.join_new(number, member_id, fields, asks_id=version >= 4)

    @precondition(lambda self: self.ids)
    @rule(pick=st.randoms(use_true_random=False), names=PROTOCOLS, topic=TOPICS, same=st.booleans())
    def join_known(self, pick: Any, names: tuple[str, ...], topic: str, same: bool) -> None:
        """A join with an id that was given out once."""
        member_id = pick.choice(self.ids)
        known = self.model.members.get(member_id)
        fields = self.fields(names, topic, known["instance"] if known else None)
        if same and known:
            fields = {key: known[key] for key in ("protocols", "session", "rebalance", "instance")}
        number = self.send(ApiKey.JOIN_GROUP, 9, self.join_body(member_id, fields))
        self.model.join_known(number, member_id, fields)

    @precondition(lambda self: self.model.members)
    @rule()
    def all_join(self) -> None:
        """Every member joins again: random picks alone seldom complete a generation."""
        for member_id in list(self.model.members):
            known = self.model.members.get(member_id)
            if known is None or known["join"] is not None:
                continue
            fields = {key: known[key] for key in ("protocols", "session", "rebalance", "instance")}
            number = self.send(ApiKey.JOIN_GROUP, 9, self.join_body(member_id, fields))
            self.model.join_known(number, member_id, fields)
            self.settle()

    @precondition(lambda self: self.model.members)
    @rule()
    def all_sync(self) -> None:
        """Every member syncs, the leader last."""
        leader = self.model.leader or ""
        for member_id in [*(it for it in self.model.members if it != leader), leader]:
            self.sync_one(member_id, self.model.generation, leads=member_id == leader)

    @precondition(lambda self: self.ids)
    @rule(pick=st.randoms(use_true_random=False), back=st.integers(0, 1))
    def sync(self, pick: Any, back: int) -> None:
        """One syncs, of this generation or the last."""
        member_id = pick.choice(self.ids)
        generation = self.model.generation - back
        self.sync_one(member_id, generation, leads=member_id == self.model.leader)

    @precondition(lambda self: self.ids)
    @rule(pick=st.randoms(use_true_random=False), back=st.integers(0, 1))
    def heartbeat(self, pick: Any, back: int) -> None:
        """One heartbeats."""
        member_id, generation = pick.choice(self.ids), self.model.generation - back
        body = {"group_id": GROUP, "generation_id": generation, "member_id": member_id}
        self.model.heartbeat(self.send(ApiKey.HEARTBEAT, 4, body), member_id, generation)

    @precondition(lambda self: self.ids)
    @rule(pick=st.randoms(use_true_random=False))
    def leave(self, pick: Any) -> None:
        """One leaves."""
        member_id = pick.choice(self.ids)
        number = self.send(ApiKey.LEAVE_GROUP, 1, {"group_id": GROUP, "member_id": member_id})
        self.model.leave(number, member_id)

    @rule(pick=st.randoms(use_true_random=False), is_member=st.booleans(), offset=st.integers(0, 9))
    def commit(self, pick: Any, is_member: bool, offset: int) -> None:
        """A member commits, or somebody outside."""
        member_id = pick.choice(self.ids) if is_member and self.ids else ""
        generation = self.model.generation if member_id else -1
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        body = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": generation,
            "member_id": member_id,
            "topics": [{"name": "orders", "partitions": [partition]}],
        }
        number = self.send(ApiKey.OFFSET_COMMIT, 9, body)
        self.model.commit(number, member_id, generation, offset)

    @rule(delta=st.one_of(st.integers(1, 3_000), st.integers(1, 400_000)))
    def time_passes(self, delta: int) -> None:
        """Timers run, each at its own millisecond."""
        clock, cluster = self.script.world.clock, self.script.world.cluster
        until = clock.now_ms() + delta
        while True:
            due = cluster.step(clock.now_ms())
            due = cluster.step(clock.now_ms()) if due is not None else due
            if due is None or due >= until:
                break
            clock.advance(max(due - clock.now_ms(), 1))
        clock.advance(until - clock.now_ms())
        self.script.world.step()

    @rule()
    def coordinator_moves(self) -> None:
        """Data that the log lacks is gone, and the rest is unchanged."""
        self.broker = 1 - self.broker
        self.script.world.cluster.move_coordinator(GROUP, to=self.broker)
        self.script.world.step()
        self.model.reload()

    @invariant()
    def both_agree(self) -> None:
        """Answers, the group, and the memory of its members."""
        if not hasattr(self, "model"):
            return
        self.settle()
        counted, found = self.script.member_bytes()
        assert counted == found
        views = self.script.world.cluster.groups()
        assert bool(views) == self.model.exists
        if views:
            view = views[0]
            model = self.model
            assert (view.state, view.generation, view.leader_id, view.protocol) == (
                (model.state, model.generation, model.leader, model.protocol)
            )
            assert [(it.member_id, it.instance_id, it.assignment_bytes) for it in view.members] == [
                (key, it["instance"], it["assignment"]) for key, it in model.members.items()
            ]
            offsets = {place.partition: it.offset for place, it in view.offsets.items()}
            assert offsets == model.offsets

    def settle(self) -> None:
        """Compare the responses that have come."""
        self.model.advance(self.script.world.clock.now_ms() - self.start_ms)
        for number in list(self.open):
            answer = self.peek(number)
            expected = self.model.answers.get(number)
            assert (answer is None) == (expected is None), (number, answer, expected)
            if answer is not None and expected is not None:
                del self.open[number]
                assert _comparable(answer, expected) == expected

    def view_ids(self) -> list[str]:
        """Members that the coordinator has."""
        return [it.member_id for view in self.script.world.cluster.groups() for it in view.members]

    def fields(self, names: tuple[str, ...], topic: str, instance: str | None) -> dict[str, Any]:
        """The fields of a join; timeouts differ, so that no two members end at once."""
        self.count += 1
        return {
            "protocols": tuple((name, subscription(topic)) for name in names),
            "session": 6_000 + 7 * self.count,
            "rebalance": 20_000 + 13 * self.count,
            "instance": instance,
        }

    def join_body(self, member_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The request's fields."""
        return {
            "group_id": GROUP,
            "session_timeout_ms": fields["session"],
            "rebalance_timeout_ms": fields["rebalance"],
            "member_id": member_id,
            "group_instance_id": fields["instance"],
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": it} for name, it in fields["protocols"]],
        }

    def sync_one(self, member_id: str, generation: int, *, leads: bool) -> None:
        """Send a SyncGroup; the leader's brings an assignment for every second member."""
        brought = {key: key.encode() for key in list(self.model.members)[::2]} if leads else {}
        body = {
            "group_id": GROUP,
            "generation_id": generation,
            "member_id": member_id,
            "assignments": [{"member_id": k, "assignment": v} for k, v in brought.items()],
        }
        number = self.send(ApiKey.SYNC_GROUP, 4, body)
        self.model.sync(number, member_id, generation, brought)
        self.settle()

    def send(self, api: ApiKey, version: int, body: dict[str, Any]) -> int:
        """Send over a connection of its own, so that nothing waits behind a parked request."""
        self.number += 1
        member = self.script.member(broker=self.broker)
        self.open[self.number] = member
        member.client.send(api, version, body)
        return self.number

    def peek(self, number: int) -> dict[str, Any] | None:
        """The response of a request, if it has come."""
        if number not in self.answers:
            found = self.open[number].answers()
            if found:
                (self.answers[number],) = found
        return self.answers.get(number)


def _comparable(answer: dict[str, Any], expected: tuple[Any, ...]) -> tuple[Any, ...]:
    """The model's expectation for a response of this kind."""
    if "generation_id" in answer and len(expected) > 2:
        members = [it["member_id"] for it in answer["members"]]
        return (
            answer["error_code"],
            answer["member_id"],
            answer["generation_id"],
            answer["leader"],
            answer["protocol_name"],
            members,
        )
    if "assignment" in answer and len(expected) == 2:
        return answer["error_code"], answer["assignment"]
    if "generation_id" in answer and len(expected) == 2:
        return answer["error_code"], answer["member_id"]
    if "error_code" in answer:
        return (answer["error_code"],)
    (topic,) = answer["topics"]
    return (topic["partitions"][0]["error_code"],)


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class LongCoordinator(Coordinator):
    """More examples, and longer ones."""


TestLongCoordinator = pytest.mark.long(LongCoordinator.TestCase)
TestLongCoordinator.settings = settings(max_examples=2_000, stateful_step_count=60, deadline=None)
