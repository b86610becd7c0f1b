"""`kprod topics` at an embedded cluster: what scripts read, and what people are told."""

import json
from collections.abc import Iterator

import pytest
from click.testing import Result

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli import running


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers and a topic."""
    with EmbeddedCluster(2, {"orders": 2}) as opened:
        yield opened


def topics(cluster: EmbeddedCluster, *arguments: str) -> Result:
    """Run a command on a cluster."""
    command, *rest = arguments
    return running.run("topics", command, "-b", cluster.bootstrap_servers, *rest)


def test_names_are_listed(cluster: EmbeddedCluster) -> None:
    """One a line, sorted; Kafka's own only when asked for."""
    cluster.create_topic("audit", 1)
    cluster.create_topic("__consumer_offsets", 3)
    assert topics(cluster, "list").stdout == "audit\norders\n"
    assert topics(cluster, "list", "--internal").stdout == "__consumer_offsets\naudit\norders\n"
    rows = [json.loads(line) for line in topics(cluster, "list", "--json").stdout.splitlines()]
    assert rows[1] == {"topic": "orders", "partitions": 2, "replicas": 2, "internal": False}


def test_a_topic_is_made_described_enlarged_and_deleted(cluster: EmbeddedCluster) -> None:
    """Each step is seen by the next."""
    setting = ["--set", "retention.bytes=1000000"]
    made = topics(cluster, "create", "audit", "-p", "2", "-r", "1", *setting)
    assert (made.exit_code, made.stderr) == (0, "made topic audit\n")
    described = json.loads(topics(cluster, "describe", "audit", "--json").stdout)
    assert described["settings"] == {"retention.bytes": {"value": "1000000", "from": "topic"}}
    assert [len(it["replicas"]) for it in described["partitions"]] == [1, 1]
    assert topics(cluster, "alter", "audit", "--partitions", "3").exit_code == 0
    described = json.loads(topics(cluster, "describe", "audit", "--json").stdout)
    assert [it["partition"] for it in described["partitions"]] == [0, 1, 2]
    assert topics(cluster, "delete", "audit", "--yes").exit_code == 0
    assert topics(cluster, "list").stdout == "orders\n"


def test_offsets_are_those_of_the_log(cluster: EmbeddedCluster) -> None:
    """First and end offset of each partition, in text and in JSON."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send("orders", b"x", partition=1).result(30)
    described = json.loads(topics(cluster, "describe", "orders", "--offsets", "--json").stdout)
    ends = [(it["first_offset"], it["end_offset"]) for it in described["partitions"]]
    assert ends == [(0, 0), (0, 3)]
    lines = topics(cluster, "describe", "orders", "--offsets").stdout.splitlines()
    assert lines[0].startswith("orders: 2 partitions, id ")
    assert lines[1].split() == "partition leader replicas in sync first offset end offset".split()
    assert lines[3].split() == ["1", "1", "1,0", "1,0", "0", "3"]


def test_all_settings_say_where_they_come_from(cluster: EmbeddedCluster) -> None:
    """Those of the topic alone, or of the cluster and Kafka's defaults too."""
    assert len(topics(cluster, "describe", "orders").stdout.splitlines()) == 4
    every = topics(cluster, "describe", "orders", "--all-settings").stdout
    assert "  retention.ms " in every
    assert "(default)" in every


def test_a_topic_without_leader_says_so(cluster: EmbeddedCluster) -> None:
    """The brokers of a partition are down."""
    topics(cluster, "create", "lonely", "-p", "1", "-r", "1")
    leader = cluster.describe("lonely", 0).leader_id
    cluster.stop_broker(leader)
    assert topics(cluster, "describe", "lonely").stdout.splitlines()[2].split()[1] == "none"


def test_what_exists_is_an_error_unless_that_is_meant(cluster: EmbeddedCluster) -> None:
    """The cluster's words, and `--if-missing` for scripts."""
    rejected = topics(cluster, "create", "orders")
    assert rejected.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in rejected.stderr
    passed = topics(cluster, "create", "orders", "--if-missing")
    assert (passed.exit_code, passed.stderr) == (0, "topic orders is there already\n")
    wrong = topics(cluster, "create", "x y", "--if-missing")
    assert (wrong.exit_code, "INVALID_TOPIC_EXCEPTION" in wrong.stderr) == (1, True)


def test_an_unknown_topic_is_named_and_not_made(cluster: EmbeddedCluster) -> None:
    """Asking does not create it."""
    for arguments in (["describe", "orders", "nope"], ["alter", "nope", "-p", "3"]):
        result = topics(cluster, *arguments)
        assert (result.exit_code, result.stderr) == (
            1,
            "kprod: the cluster has no topic 'nope'\n",
        )
    assert topics(cluster, "list").stdout == "orders\n"


def test_what_can_be_deleted_is_deleted(cluster: EmbeddedCluster) -> None:
    """The others are told, and the exit code says so."""
    result = topics(cluster, "delete", "nope", "orders", "--yes")
    assert result.exit_code == 1
    assert result.stderr == "deleted topic orders\nkprod: the cluster has no topic 'nope'\n"
    assert not topics(cluster, "list").stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["delete", "orders"], "nobody can be asked here: give --yes"),
        (["alter", "orders"], "nothing to change"),
        (["alter", "orders", "--set", "retention.ms"], "'retention.ms' is not NAME=VALUE"),
        (["alter", "orders", "--set", "a=1", "--unset", "a"], "a is both in --set and in --unset"),
        (["create", "orders", "-p", "0"], "0 is not in the range"),
        (["describe"], "Missing argument 'TOPIC...'"),
    ],
)
def test_wrong_usage(cluster: EmbeddedCluster, arguments: list[str], text: str) -> None:
    """Exit code 2, and nothing is done."""
    result = topics(cluster, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr
    assert topics(cluster, "list").stdout == "orders\n"


def test_no_command_is_a_question() -> None:
    """Help is a response, not an error."""
    result = running.run("topics")
    assert (result.exit_code, "Usage: kprod topics" in result.stdout) == (0, True)


def test_a_command_that_is_misspelt_gets_a_hint() -> None:
    """The hint of the group itself."""
    result = running.run("topics", "lst")
    assert result.exit_code == 2
    assert "did you mean list?" in result.stderr
