"""The tables of this directory: each name in them is a test, and each state has its rules."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from kprod.consumer.position import TRANSITIONS
from tests.consumer.kafka_tests import FETCH_SESSION_HANDLER, FETCHER, OFFSET_FETCHER, REASONS
from tests.consumer.position_rows import ENDS, MANY_PARTITIONS, POSITIONS

HERE = Path(__file__).parent


@cache
def names_of(file: str) -> frozenset[str]:
    """The names of a file's tests."""
    tree = ast.parse((HERE / f"{file}.py").read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def missing(places: Iterable[str]) -> list[str]:
    """The places where there is no such test."""
    return [place for place in places if place.split(":")[1] not in names_of(place.split(":")[0])]


@pytest.mark.parametrize(
    ("cases", "count"), [(FETCH_SESSION_HANDLER, 14), (FETCHER, 82), (OFFSET_FETCHER, 52)]
)
def test_kafka_s_tests_are_here_or_have_a_reason(cases: dict[str, str], count: int) -> None:
    """As many as there are in Kafka's file."""
    assert len(cases) == count
    assert not missing(place for place in cases.values() if place not in REASONS)


@pytest.mark.parametrize("rows", [POSITIONS, ENDS, MANY_PARTITIONS])
def test_every_rule_has_a_test(rows: dict[str, tuple[str, ...]]) -> None:
    """At least one, by name."""
    assert all(rows.values())
    assert not missing(place for places in rows.values() for place in places)


def test_every_state_has_rules() -> None:
    """But for the one in which a partition waits for the application's thread."""
    named = {row.split(",")[0].split(":")[0] for row in POSITIONS}
    assert {state.name for state in TRANSITIONS} - {"HALTED"} <= named
