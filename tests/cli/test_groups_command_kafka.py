"""`kprod groups` at Apache Kafka: the same figures as Kafka's own tool."""

import csv
import json
from collections.abc import Iterator

import confluent_kafka
import pytest
from click.testing import Result

from kprod import Producer
from tests.admin.group_makers import commit, join, leave
from tests.cli import running
from tests.conformance.group_crew import Crew
from tests.consumer.reading import CLOCK
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import KafkaTools

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC, GROUP = "groups-orders", "groups-billing"
LIMIT_S = 120


def groups(kafka: KafkaNodes, *arguments: str) -> Result:
    """Run a command on Kafka."""
    command, *rest = arguments
    return running.run("groups", command, "-b", kafka.bootstrap_servers, *rest)


@pytest.fixture
def crew(kafka: KafkaNodes) -> Iterator[Crew]:
    """A group with a member that has both partitions, and an offset of the first."""
    kafka.create_topic(TOPIC, partitions=2)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(5):
            at = 1_700_000_000_000 + number * 1_000
            producer.send(TOPIC, b"x", partition=0, timestamp_ms=at).result(30)
    commit(kafka.bootstrap_servers, GROUP, {(TOPIC, 0): 2})
    joined = join(kafka.bootstrap_servers, TOPIC, group_id=GROUP)
    yield joined
    joined.close()


@pytest.mark.timeout(LIMIT_S)
def test_both_tools_tell_the_same(
    kafka: KafkaNodes, kafka_artifacts: Artifacts, crew: Crew
) -> None:
    """Members, offsets and lags; then resets of every kind; then it is deleted."""
    address = kafka.bootstrap_servers

    def tool(*arguments: str) -> str:
        return KafkaTools(kafka_artifacts).run(TOOL, "--bootstrap-server", address, *arguments)

    told = tool("--describe", "--group", GROUP)
    rows = {line.split()[2]: line.split() for line in told.splitlines() if TOPIC in line}
    (described,) = map(json.loads, groups(kafka, "describe", GROUP, "--json").stdout.splitlines())
    (member,) = described["members"]
    assert [
        [GROUP, it["topic"], str(it["partition"]), it["committed"], it["log_end"], it["lag"]]
        for it in described["offsets"]
    ] == [[GROUP, TOPIC, "0", 2, 5, 3], [GROUP, TOPIC, "1", None, 0, None]]
    assert rows["0"][3:8] == ["2", "5", "3", member["member_id"], member["host"]]
    assert rows["1"][3:6] == ["-", "0", "-"]
    assert groups(kafka, "list", "--state", "stable").stdout.splitlines().count(GROUP) == 1
    active = groups(kafka, "reset", GROUP, "--all-topics", "--to-earliest")
    assert (active.exit_code, "Stable with 1 member" in active.stderr) == (1, True)
    rejected = groups(kafka, "delete", GROUP, "-y")
    assert (rejected.exit_code, "NON_EMPTY_GROUP" in rejected.stderr) == (1, True)
    leave(crew)
    for target in (
        ["--to-offset", "99"],
        ["--shift-by", "-1"],
        ["--to-datetime", "2023-11-14T22:13:21.000"],
    ):
        theirs = tool(
            *("--group", GROUP, "--reset-offsets", "--topic", f"{TOPIC}:0", *target),
            *("--dry-run", "--export"),
        )
        ours = groups(kafka, "reset", GROUP, "--topic", f"{TOPIC}:0", *target, "--csv")
        rows_of_both = [
            [row[-3:] for row in csv.reader(text.splitlines()) if row]
            for text in (theirs, ours.stdout)
        ]
        assert rows_of_both[0] == rows_of_both[1], theirs
    done = groups(kafka, "reset", GROUP, "--topic", TOPIC, "--to-earliest", "--execute", "--csv")
    assert done.stdout == f"{TOPIC},0,0\n{TOPIC},1,0\n"
    told = tool("--describe", "--group", GROUP, "--offsets")
    assert sorted(line.split()[2:6] for line in told.splitlines() if TOPIC in line) == [
        ["0", "0", "5", "5"],
        ["1", "0", "0", "0"],
    ]
    gone = groups(kafka, "delete", GROUP, "-t", f"{TOPIC}:1", "-y")
    assert (gone.exit_code, gone.stderr) == (0, f"deleted 1 offset of group {GROUP}\n")
    assert groups(kafka, "offsets", GROUP, "--csv").stdout == f"{TOPIC},0,0\n"
    assert groups(kafka, "delete", GROUP, "-y").exit_code == 0
    assert GROUP not in groups(kafka, "list").stdout.splitlines()


@pytest.mark.timeout(LIMIT_S)
def test_a_group_of_the_new_protocol(kafka: KafkaNodes, kafka_artifacts: Artifacts) -> None:
    """Members of KIP-848 with their partitions and lags, as Kafka's own tool tells them."""
    topic = kafka.create_topic("groups-modern", partitions=3)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in (0, 0, 1):
            producer.send(topic, b"x", partition=number).result(30)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "groups-modern",
        "group.protocol": "consumer",
        "client.id": "modern",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    peers = [confluent_kafka.Consumer(settings) for _ in range(2)]
    try:
        peers[0].subscribe([topic])
        peers[1].subscribe(["^groups-modern.*"])
        until_ms = CLOCK.now_ms() + LIMIT_S * 500
        while not all(peer.assignment() for peer in peers):
            assert CLOCK.now_ms() < until_ms
            for peer in peers:
                peer.poll(0.1)
        peers[0].commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
        told = groups(kafka, "describe", "groups-modern", "--json").stdout
        (described,) = map(json.loads, told.splitlines())
        tool = KafkaTools(kafka_artifacts).run(
            TOOL,
            "--bootstrap-server",
            kafka.bootstrap_servers,
            "--describe",
            "--group",
            "groups-modern",
        )
        theirs = {
            (row[2], row[5], row[6]) for row in map(str.split, tool.splitlines()) if topic in row
        }
        shown = {
            (str(it["partition"]), "-" if it["lag"] is None else str(it["lag"]), it["member_id"])
            for it in described["offsets"]
        }
        assert shown == theirs
        assert len(shown) == 3
        assert (described["type"], described["state"]) == ("consumer", "Stable")
        members = {it["member_id"]: it for it in described["members"]}
        assert {it["client_id"] for it in members.values()} == {"modern"}
        assert {it["pattern"] for it in members.values()} == {
            None,
            "(^groups-modern.*)",
        }  # librdkafka's
        assert all(it["epoch"] > 0 for it in members.values())
        assigned = [
            (each["topic"], it)
            for one in members.values()
            for each in one["assignment"]
            for it in each["partitions"]
        ]
        assert sorted(assigned) == [(topic, number) for number in range(3)]
        text = groups(kafka, "describe", "groups-modern").stdout
        assert "Stable, 2 members, type consumer" in text
    finally:
        for peer in peers:
            peer.close()


def test_a_group_may_have_any_name(kafka: KafkaNodes) -> None:
    """Kafka takes each of them."""
    kafka.create_topic("groups-names", partitions=1)
    for name in ("", "a b", "x\n\x1b[31m", "größe"):
        commit(kafka.bootstrap_servers, name, {("groups-names", 0): 0})
        listed = groups(kafka, "list", "--json").stdout.splitlines()
        assert [it["group"] for it in map(json.loads, listed)].count(name) == 1
        assert groups(kafka, "describe", name).exit_code == 0
        assert groups(kafka, "delete", name, "-y").exit_code == 0


def test_bytes_that_are_no_subscription(kafka: KafkaNodes) -> None:
    """Kafka gives the members' bytes on as they are."""
    kafka.create_topic("groups-bytes", partitions=1)
    crew = join(
        kafka.bootstrap_servers, "groups-bytes", metadata=b"\xff\xff\xfe", assignment=b"\xff"
    )
    result = groups(kafka, "describe", crew.group_id)
    assert result.exit_code == 0
    assert "(1 byte of another protocol)" in result.stdout
    leave(crew)
    crew.close()
