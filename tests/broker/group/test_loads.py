"""Coordinators that have moved while a follower lacked the newest records of their log."""

from typing import Any

from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.broker.group.scripts import GROUP, Member, Script


class Lagging:
    """A group on three brokers; one of the two followers copies nothing of the offsets topic.

    Attributes:
        script: The group.
        behind: The broker that lacks the newest records.
        ahead: The follower that has them.
    """

    def __init__(self) -> None:
        """Create the cluster; nobody lags yet."""
        self.script = Script(brokers=3)
        first = self.script.find()
        self.ahead, self.behind = (it for it in range(3) if it != first)

    def hold(self) -> None:
        """Let the follower lag."""
        self.script.world.cluster.set_follower_lag(OFFSETS_TOPIC, 0, self.behind, None)

    def release(self) -> None:
        """Let it copy everything."""
        self.script.world.cluster.set_follower_lag(OFFSETS_TOPIC, 0, self.behind, 0)
        self.script.world.advance(1)

    def move(self, to: int) -> None:
        """Move the coordinator."""
        self.script.world.cluster.move_coordinator(GROUP, to=to)
        self.script.world.step()

    def moved(self, member: Member, broker: int) -> Member:
        """The member, connected to another broker."""
        other = self.script.member(broker=broker)
        other.member_id, other.generation = member.member_id, member.generation
        return other

    def fetched(self, broker: int) -> tuple[int, list[int]]:
        """Error code and offsets of an OffsetFetch."""
        wish: dict[str, Any] = {"group_id": GROUP, "topics": None, "require_stable": False}
        answer = self.script.world.client(broker).ask(ApiKey.OFFSET_FETCH, 6, wish)
        offsets = [
            partition["committed_offset"]
            for topic in answer["topics"]
            for partition in topic["partitions"]
        ]
        return answer["error_code"], offsets


def test_no_sync_tells_of_an_assignment_that_the_next_move_loses() -> None:
    """Seed 859743751619: another assignment was given in the same generation afterwards."""
    lagging = Lagging()
    member = lagging.script.member(broker=lagging.script.find())
    member.join()
    member.take_join()
    lagging.hold()
    member.sync({member.member_id: b"lost"})
    lagging.move(lagging.ahead)
    assert member.take()["error_code"] == ErrorCode.NOT_COORDINATOR

    moved = lagging.moved(member, lagging.ahead)
    moved.sync()
    assert moved.take()["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    lagging.move(lagging.behind)
    assert lagging.script.world.cluster.group(GROUP).members == ()


def test_a_coordinator_loads_when_the_followers_have_its_log() -> None:
    """Its members are alive, however long that took: their sessions begin with the load."""
    lagging = Lagging()
    member = lagging.script.member(broker=lagging.script.find())
    member.join()
    member.take_join()
    lagging.hold()
    member.sync({member.member_id: b"kept"})
    lagging.move(lagging.ahead)

    moved = lagging.moved(member, lagging.ahead)
    assert moved.heartbeat() == ErrorCode.NONE
    lagging.script.world.advance(15_000)  # the session timeout is 10 s
    assert moved.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    lagging.release()

    moved.sync()
    assert moved.take()["assignment"] == b"kept"
    lagging.script.world.advance(9_998)  # 1 ms passed in `release`
    assert lagging.script.state == "Stable"
    lagging.script.world.advance(1)
    assert lagging.script.state == "Empty"


def test_a_coordinator_loads_when_a_slow_follower_leaves_the_in_sync_set() -> None:
    """So a follower that copies nothing delays it by `replica_lag_time_max_ms` at most."""
    lagging = Lagging()
    admin = lagging.script.member(broker=lagging.script.find())
    lagging.hold()
    admin.send_commit(7)
    lagging.move(lagging.ahead)
    assert lagging.fetched(lagging.ahead)[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    lagging.script.world.advance(30_000)

    assert lagging.fetched(lagging.ahead) == (ErrorCode.NONE, [7])


def test_no_fetch_tells_of_a_commit_that_the_next_move_loses() -> None:
    """The older offset is fetched again when nobody has the newer one."""
    lagging = Lagging()
    admin = lagging.script.member(broker=lagging.script.find())
    assert admin.commit(1) == ErrorCode.NONE
    lagging.hold()
    admin.send_commit(7)
    assert lagging.fetched(lagging.script.find()) == (ErrorCode.NONE, [1])
    lagging.move(lagging.ahead)
    assert lagging.fetched(lagging.ahead) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])

    lagging.move(lagging.behind)
    assert lagging.fetched(lagging.behind) == (ErrorCode.NONE, [1])


def test_no_fetch_tells_of_a_deletion_that_the_next_move_loses() -> None:
    """The offsets of a deleted group are fetched until its tombstones are replicated."""
    lagging = Lagging()
    leader = lagging.script.find()
    assert lagging.script.member(broker=leader).commit(1) == ErrorCode.NONE
    lagging.hold()
    deleter = lagging.script.world.client(leader)
    deleter.send(ApiKey.DELETE_GROUPS, 2, {"groups_names": [GROUP]})
    assert len(deleter.answers()) == 0

    assert lagging.fetched(leader) == (ErrorCode.NONE, [1])
    lagging.release()
    assert lagging.fetched(leader) == (ErrorCode.NONE, [])
    assert len(deleter.answers()) == 1
