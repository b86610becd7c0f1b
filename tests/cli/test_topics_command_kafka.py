"""`kprod topics` at Apache Kafka: made, described, altered and deleted there."""

import json

import pytest
from click.testing import Result

from tests.cli import running
from tests.plugins.kafka_nodes import KafkaNodes

ADMIN_S = 60


def topics(kafka: KafkaNodes, *arguments: str) -> Result:
    """Run a command on Kafka."""
    command, *rest = arguments
    return running.run("topics", command, "-b", kafka.bootstrap_servers, *rest)


def described(kafka: KafkaNodes, name: str) -> dict[str, object]:
    """Return what JSON says of a topic."""
    line: dict[str, object] = json.loads(topics(kafka, "describe", name, "--json").stdout)
    return line


@pytest.mark.timeout(ADMIN_S)
def test_a_topic_s_life(kafka: KafkaNodes) -> None:
    """Settings are set and unset one by one, partitions added; Kafka's own tools see the same."""
    assert (
        topics(kafka, "create", "cli-life", "-p", "2", "--set", "retention.ms=1000").exit_code == 0
    )
    changed = topics(
        kafka,
        *("alter", "cli-life", "-p", "3", "--set", "cleanup.policy=compact,delete"),
        *("--set", "max.message.bytes=4096", "--unset", "retention.ms"),
    )
    assert changed.exit_code == 0, changed.stderr
    assert changed.stderr == (
        "changed 3 settings of topic cli-life\ntopic cli-life has 3 partitions\n"
    )
    state = described(kafka, "cli-life")
    assert state["settings"] == {
        "cleanup.policy": {"value": "compact,delete", "from": "topic"},
        "max.message.bytes": {"value": "4096", "from": "topic"},
    }
    assert isinstance(state["partitions"], list)
    assert len(state["partitions"]) == 3
    assert "cli-life" in topics(kafka, "list").stdout.splitlines()
    assert topics(kafka, "delete", "cli-life", "--yes").exit_code == 0
    assert "cli-life" not in topics(kafka, "list").stdout.splitlines()


def test_what_kafka_rejects_is_told_in_its_words(kafka: KafkaNodes) -> None:
    """A wrong setting changes nothing, also not the setting beside it."""
    topics(kafka, "create", "cli-rejected", "--set", "retention.ms=1000")
    wrong = topics(kafka, "alter", "cli-rejected", "--set", "retention.ms=x", "--set", "flush.ms=1")
    assert wrong.exit_code == 1
    assert "INVALID_CONFIG (code 40): topic cli-rejected: Invalid value x" in wrong.stderr
    assert described(kafka, "cli-rejected")["settings"] == {
        "retention.ms": {"value": "1000", "from": "topic"}
    }
    fewer = topics(kafka, "alter", "cli-rejected", "-p", "1")
    assert (fewer.exit_code, "INVALID_PARTITIONS" in fewer.stderr) == (1, True)
    many = topics(kafka, "create", "cli-many", "-r", "5")
    assert (many.exit_code, "INVALID_REPLICATION_FACTOR" in many.stderr) == (1, True)
    unknown = topics(kafka, "delete", "cli-none", "-y")
    assert unknown.stderr == "kprod: the cluster has no topic 'cli-none'\n"
