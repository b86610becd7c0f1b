"""Groups: every state and every request that a client can make of it, at both brokers.

A group is brought into a state, one request is made, and compared are its response (or that it
waits), the group as it is described afterwards, and the records of `__consumer_offsets`.
"""

import itertools
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.conformance.group_crew import LEVELS, Crew, await_coordinator, topic_of
from tests.conformance.group_events import (
    EVENTS,
    NEWEST,
    ODD,
    PENDING,
    STATIC,
    Event,
    delete_offsets,
)
from tests.conformance.sides import Sides
from tests.conformance.wire import Target

STATES = ["Unknown", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
WITH_IDS = [pytest.param("middle", marks=pytest.mark.long), "highest"]
"""Levels whose joins have instance ids and ids that are given out first."""
FILTERS: Mapping[str, dict[str, list[str]]] = {
    "none": {},
    "states": {"states_filter": ["stable", "PREPARINGREBALANCE"]},
    "an unknown state": {"states_filter": ["Odd"]},
    "types": {"types_filter": ["CLASSIC"]},
    "an unknown type": {"types_filter": ["odd"]},
    "the other type": {"types_filter": ["consumer"]},
    "both": {"states_filter": ["Empty", "completingrebalance"], "types_filter": ["classic"]},
}
_run = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def places(sides: Sides) -> dict[str, Target]:
    """A topic on each side, of one name.

    Returns:
        Its first partition, by side.
    """
    return {side.name: topic_of(side, f"grouped-{_run}") for side in sides}


@pytest.fixture
def crews(sides: Sides, places: dict[str, Target], level: str) -> Iterator[list[Crew]]:
    """A crew on each side, the embedded broker's first.

    Yields:
        Both.
    """
    group_id = f"group-{_run}-{next(_numbers)}"
    both = [Crew(side, level, places[side.name], group_id) for side in sides]
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
        if not crew.wire(name).has_answer(wait_s=0.05):
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


def assert_equal(crews: list[Crew], event: Event) -> None:
    """Make a request at both brokers, and compare everything."""
    embedded, kafka = crews
    ours = outcome(embedded, event, waits=None)
    theirs = outcome(kafka, event, waits=ours[0] == "waits")
    assert ours == theirs
    assert embedded.records() == kafka.records()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_a_request_in_a_state(crews: list[Crew], state: str, event: str) -> None:
    """Response, group and records are the same at both brokers."""
    for crew in crews:
        crew.bring_to(state)
    assert_equal(crews, EVENTS[event])


@pytest.mark.parametrize("level", WITH_IDS)
@pytest.mark.parametrize("event", STATIC)
@pytest.mark.parametrize("state", STATES)
def test_a_request_to_static_members(crews: list[Crew], state: str, event: str) -> None:
    """Instance ids are known, unknown, another's, or come again under another member id."""
    for crew in crews:
        crew.instances = {name: f"instance {name}" for name in "AB"}
        crew.protocols = ("range", "roundrobin")
        crew.bring_to(state)
    assert_equal(crews, STATIC[event])


@pytest.mark.parametrize("level", WITH_IDS)
@pytest.mark.parametrize("event", PENDING)
@pytest.mark.parametrize("state", STATES)
def test_a_request_beside_an_unused_id(crews: list[Crew], state: str, event: str) -> None:
    """The id can be used, can leave, and holds a rebalance up."""
    for crew in crews:
        crew.bring_to(state)
        crew.ask_for_id("P")
    assert_equal(crews, PENDING[event])


@pytest.mark.parametrize("level", WITH_IDS)
@pytest.mark.parametrize("event", ["join", "leave"])
def test_an_unused_id_is_the_last_to_be_waited_for(crews: list[Crew], event: str) -> None:
    """All members have joined again; the phase ends with the id's join or leave."""
    for crew in crews:
        crew.bring_to("PreparingRebalance")
        crew.ask_for_id("P")
        crew.join("B")
        crew.join("A")
    assert_equal(crews, PENDING[event])
    for crew in crews:
        crew.joined("A")
    answers = [crew.masked([crew.joined("B"), crew.joined("C")]) for crew in crews]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("level", ["highest"])
@pytest.mark.parametrize("event", NEWEST)
@pytest.mark.parametrize("state", STATES)
def test_a_request_of_the_highest_version(crews: list[Crew], state: str, event: str) -> None:
    """Fields that lower versions do not have."""
    for crew in crews:
        crew.bring_to(state)
    assert_equal(crews, NEWEST[event])


@pytest.mark.parametrize("level", WITH_IDS)
@pytest.mark.parametrize("event", ODD)
@pytest.mark.parametrize("state", ["Unknown", "Stable"])
def test_an_odd_request(crews: list[Crew], state: str, event: str) -> None:
    """It is answered as Kafka answers it."""
    for crew in crews:
        crew.bring_to(state)
    assert_equal(crews, ODD[event])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("state", STATES)
def test_offsets_of_members_that_are_no_consumers(crews: list[Crew], state: str) -> None:
    """Their subscriptions cannot be read, so none of their offsets can be deleted."""
    for crew in crews:
        crew.protocol_type = "connect"
        crew.bring_to(state)
    assert_equal(crews, delete_offsets())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("state", STATES)
def test_a_list_of_groups(crews: list[Crew], state: str, level: str) -> None:
    """The group is in it, or is not, for each filter."""
    for crew in crews:
        crew.bring_to(state)
    version = LEVELS[level][ApiKey.LIST_GROUPS]
    fields = {"states_filter": 4, "types_filter": 5}
    for wish in FILTERS.values():
        body = {key: value for key, value in wish.items() if version >= fields[key]}
        ours, theirs = [listed(crew, body) for crew in crews]
        assert ours == theirs, body


def listed(crew: Crew, body: dict[str, Any]) -> tuple[int, Any]:
    """The error code, and the crew's group as a list has it."""
    answer = crew.ask("admin", ApiKey.LIST_GROUPS, body)
    found = [it for it in answer["groups"] if it["group_id"] == crew.group_id]
    return answer["error_code"], crew.masked(found)


@pytest.mark.parametrize(
    ("version", "kind"),
    # version 0 asks for groups alone
    [(0, 0), *itertools.product(range(1, 7), (0, 3, 99, -1))],
)
def test_a_coordinator(sides: Sides, version: int, kind: int) -> None:
    """Kinds of keys that are unknown, in every version; also an empty name."""
    for side in sides:
        await_coordinator(side, "a-group")
    for name in ("a-group", ""):
        names = {"coordinator_keys": [name]} if version >= 4 else {"key": name}
        codes = [
            _code(side.ask(ApiKey.FIND_COORDINATOR, version, {"key_type": kind, **names}))
            for side in sides
        ]
        assert codes[0] == codes[1], name


def _code(answer: dict[str, Any]) -> int:
    (told,) = answer.get("coordinators") or [answer]
    code = int(told["error_code"])
    assert (told["node_id"] >= 0) == (code == ErrorCode.NONE)
    return code
