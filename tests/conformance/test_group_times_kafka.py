"""Groups whose time is up, and groups that are full, at both brokers with settings of their own.

A test waits for what a broker says, and compares that; how long it took is another test's matter
(`tests/broker/group/test_times.py`, to the millisecond).
"""

import contextlib
import itertools
import uuid
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.protocol.api import ApiKey
from tests.conformance.group_crew import LEVELS, Crew, topic_of
from tests.conformance.group_events import commit, heartbeat, join, join_with, sync
from tests.conformance.sides import Side, Sides
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes

SESSION_MIN_MS, CHECK_MS, SIZE_MAX = 100, 200, 2
SHORT_MS, MEDIUM_MS = 500, 4_000
"""A time that is to be over soon, and one that a slow machine needs for a few requests."""
WITH_IDS = ["middle", "highest"]
_run = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)

pytestmark = [pytest.mark.slow, pytest.mark.long]


@contextlib.contextmanager
def both_with(artifacts: Artifacts, **settings: int) -> Generator[Sides]:
    """Open both brokers with settings of groups, named as the embedded broker names them."""
    config = EmbeddedConfig(
        auto_create_topics=False,
        default_replication_factor=1,
        **settings,  # type: ignore[arg-type]  # all of them are numbers
    )
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    with (
        KafkaNodes(artifacts, settings=named) as nodes,
        EmbeddedCluster(brokers=1, config=config) as cluster,
    ):
        yield Sides(
            Side("embedded", cluster.bootstrap_servers), Side("kafka", nodes.bootstrap_servers)
        )


@pytest.fixture(scope="module")
def quick_sides(kafka_artifacts: Artifacts) -> Generator[Sides]:
    """Both brokers, with short sessions and groups of two members at most.

    Yields:
        Them, ready.
    """
    settings = {"group_min_session_timeout_ms": SESSION_MIN_MS, "group_max_size": SIZE_MAX}
    with both_with(kafka_artifacts, **settings) as sides:
        yield sides


def crew_of(side: Side, level: str, group_id: str) -> Crew:
    """A crew with a topic of its own."""
    return Crew(side, level, topic_of(side, f"timed-{_run}"), group_id)


@pytest.fixture
def crews(quick_sides: Sides, level: str) -> Iterator[list[Crew]]:
    """A crew on each side.

    Yields:
        Both.
    """
    group_id = f"timed-{_run}-{next(_numbers)}"
    both = [crew_of(side, level, group_id) for side in quick_sides]
    yield both
    for crew in both:
        crew.close()


def assert_told(crews: list[Crew], *answers: list[Any]) -> None:
    """Compare the responses alone: these groups change by their short times."""
    ours, theirs = [crew.masked(told) for crew, told in zip(crews, answers, strict=True)]
    assert ours == theirs


def assert_equal(crews: list[Crew], *answers: list[Any]) -> None:
    """Compare the responses of each crew, its group, and its records."""
    assert_told(crews, *answers)
    embedded, kafka = crews
    assert embedded.masked(embedded.described()) == kafka.masked(kafka.described())
    assert embedded.records() == kafka.records()


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_ends(crews: list[Crew]) -> None:
    """The only member is silent; what it asks afterwards is an unknown member's."""
    told = []
    for crew in crews:
        crew.session_ms = SHORT_MS
        crew.join("A")
        crew.joined("A")
        crew.ask("A", ApiKey.SYNC_GROUP, crew.sync_body("A", "A"))
        crew.await_state("Empty", 0)
        told.append([crew.ask(*event("A")(crew)) for event in (join, sync, heartbeat, commit)])
    assert_equal(crews, *told)


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_ends_while_the_others_wait(crews: list[Crew]) -> None:
    """The leader has joined again; its wait ends with the follower's session."""
    told = []
    for crew in crews:
        crew.join("A")
        crew.joined("A")
        crew.join("B", session_timeout_ms=MEDIUM_MS)
        crew.await_state("PreparingRebalance", 2)
        crew.join("A")
        crew.joined("A")
        crew.joined("B")
        crew.send(*join_with("A", topics=("more",))(crew))
        told.append([crew.joined("A"), crew.ask(*heartbeat("B")(crew))])
    assert_equal(crews, *told)


@pytest.mark.parametrize("level", LEVELS)
def test_a_join_phase_ends_without_a_member(crews: list[Crew]) -> None:
    """The follower does not join within the rebalance timeout, and is removed."""
    told = []
    for crew in crews:
        if crew.versions[ApiKey.JOIN_GROUP]:
            crew.rebalance_ms = SHORT_MS
        else:
            crew.session_ms = MEDIUM_MS  # which is the rebalance timeout of version 0, too
        crew.bring_to("Stable")
        crew.join("A")
        told.append([crew.joined("A"), crew.ask(*heartbeat("B")(crew))])
    assert_told(crews, *told)


@pytest.mark.parametrize("level", WITH_IDS)
def test_a_join_phase_that_a_static_member_misses(crews: list[Crew]) -> None:
    """It ends without the static follower, which stays a member."""
    told = []
    for crew in crews:
        crew.rebalance_ms = SHORT_MS
        crew.instances = {name: f"instance {name}" for name in "AB"}
        crew.bring_to("Stable")
        crew.join("A")
        told.append([crew.joined("A"), crew.ask(*heartbeat("B")(crew))])
    assert_told(crews, *told)


@pytest.mark.parametrize("level", WITH_IDS)
def test_the_leader_does_not_sync(crews: list[Crew]) -> None:
    """It is removed when the rebalance timeout is over, and the follower's sync is answered."""
    told = []
    for crew in crews:
        crew.rebalance_ms = MEDIUM_MS
        crew.bring_to("CompletingRebalance")
        told.append([crew.ask(*sync("B")(crew)), crew.ask(*heartbeat("A")(crew)), crew.described()])
    assert_told(crews, *told)


@pytest.mark.parametrize("level", WITH_IDS)
def test_a_follower_does_not_sync(crews: list[Crew]) -> None:
    """It is removed from the stable group when the rebalance timeout is over."""
    told = []
    for crew in crews:
        crew.rebalance_ms = MEDIUM_MS
        crew.bring_to("CompletingRebalance")
        synced = crew.ask(*sync("A", "A", "B")(crew))
        crew.await_state("PreparingRebalance", 1)
        told.append([synced, *(crew.ask(*heartbeat(name)(crew)) for name in "AB")])
    assert_told(crews, *told)


@pytest.mark.parametrize("level", WITH_IDS)
def test_an_unused_id_ends(crews: list[Crew]) -> None:
    """A rebalance waits for it no longer than for its session timeout."""
    told = []
    for crew in crews:
        crew.join("A")
        crew.joined("A")
        crew.ask_for_id("P", session_timeout_ms=SHORT_MS)
        crew.send(*join_with("A", topics=("more",))(crew))
        told.append([crew.joined("A"), crew.ask(*join("P")(crew))])
    assert_equal(crews, *told)


def test_offsets_expire(kafka_artifacts: Artifacts) -> None:
    """Those that brought a retention time, and then the group, with a tombstone for each."""
    settings = {"offsets_retention_check_interval_ms": CHECK_MS}
    with both_with(kafka_artifacts, **settings) as sides:
        crews = [crew_of(side, "lowest", f"expires-{_run}") for side in sides]
        for crew in crews:
            body = crew.commit_body(
                "nobody", generation_id_or_member_epoch=-1, retention_time_ms=SHORT_MS
            )
            crew.ask("admin", ApiKey.OFFSET_COMMIT, body)
            while crew.described()["group_state"] != "Dead":
                pass  # each question takes the broker's time
        assert crews[0].records() == crews[1].records()
        for crew in crews:
            crew.close()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("who", ["new", "leader", "follower", "unknown"])
@pytest.mark.parametrize("state", ["Empty", "CompletingRebalance", "Stable"])
def test_a_full_group(crews: list[Crew], state: str, who: str) -> None:
    """It has two members, the limit; an empty one always has room."""
    told = []
    event = {
        "new": join("D"),
        "leader": join("A"),
        "follower": join("B"),
        "unknown": join("D", member_id="nobody"),
    }[who]
    for crew in crews:
        crew.bring_to(state)
        name, api, body = event(crew)
        crew.send(name, api, body)
        crew.described()
        has_answer = crew.wire(name).has_answer(wait_s=SHORT_MS / 1_000)
        told.append([crew.read(name, api) if has_answer else "waits"])
    assert_equal(crews, *told)


@pytest.mark.parametrize("level", LEVELS)
def test_a_full_group_that_rebalances(crews: list[Crew]) -> None:
    """Two joins wait, so the member that comes third has lost its place to a new one."""
    told = []
    for crew in crews:
        crew.bring_to("Stable")
        crew.send(*join_with("A", topics=("more",))(crew))
        crew.await_state("PreparingRebalance", 2)
        crew.join("C")
        crew.await_state("PreparingRebalance", 3)
        told.append([crew.ask(*join("B")(crew)), crew.ask(*heartbeat("B")(crew))])
    assert_equal(crews, *told)
