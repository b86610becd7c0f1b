"""Assignments compared with those of Kafka's own assignors, run from the same bytes."""

import subprocess
from pathlib import Path

import pytest

from kprod.consumer.group.assignments import Assigned
from kprod.consumer.group.assignors import BUILT_IN
from kprod.consumer.group.protocol_data import (
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from tests.consumer.group.random_groups import Group, difference, random_group
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools

PROGRAM = Path(__file__).with_name("JavaAssignors.java")
COUNT = 1_000


def question(assignor: str, group: Group) -> str:
    """The program's input for one group."""
    lines = [
        f"topic {name} {' '.join(','.join(sorted(racks)) or '-' for racks in partitions)}"
        for name, partitions in group.topics.items()
    ]
    lines += [
        f"member {each.member_id} {each.instance_id or '-'} {encode_subscription(each).hex()}"
        for each in group.told_to(assignor)
    ]
    return "\n".join([*lines, f"assign {assignor}", ""])


def by_java(artifacts: Artifacts, assignor: str, groups: list[Group]) -> list[Assigned]:
    """Assignments of Java; its subscriptions are compared with kprod's on the way."""
    run = subprocess.run(
        [
            *KafkaTools(artifacts).java(log=None),
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            str(PROGRAM),
        ],
        input="".join(question(assignor, group) for group in groups),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: list[Assigned] = [{}]
    told = {each.member_id: each for each in groups[0].told_to(assignor)}
    for line in run.stdout.splitlines():
        if line == ".":
            found.append({})
            if len(found) <= len(groups):
                told = {each.member_id: each for each in groups[len(found) - 1].told_to(assignor)}
            continue
        member, assignment, subscription = line.split(" ")
        found[-1][member] = decode_assignment(bytes.fromhex(assignment))
        assert subscription == encode_subscription(told[member]).hex()
        back = decode_subscription(member, told[member].instance_id, bytes.fromhex(subscription))
        assert back == told[member]._replace(topics=tuple(sorted(told[member].topics)))
    return found[:-1]


def sets_of(assigned: Assigned) -> dict[str, set[tuple[str, int]]]:
    """Partitions without their order."""
    return {member: set(keys) for member, keys in assigned.items()}


@pytest.mark.parametrize("assignor", BUILT_IN)
def test_assignments_equal_javas(kafka_artifacts: Artifacts, assignor: str) -> None:
    """The same for range, round-robin and equal subscriptions; otherwise no worse in any group."""
    groups = [random_group(seed) for seed in range(COUNT)]
    javas = by_java(kafka_artifacts, assignor, groups)
    assert len(javas) == COUNT
    for seed, (group, java) in enumerate(zip(groups, javas, strict=True)):
        found = BUILT_IN[assignor].assign(group.told_to(assignor), group.topics)
        ours = {member: list(keys) for member, keys in found.items()}
        assert len(ours) == len(group.members)
        if assignor in {"range", "roundrobin"} or group.are_subscriptions_equal:
            assert sets_of(ours) == sets_of(java), seed
        else:
            assert difference(ours) <= difference(java), seed
            assert group.moved(ours) <= group.moved(java), seed
