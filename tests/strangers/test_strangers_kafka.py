"""Kafka's own consumer and its tool for groups, on the embedded broker."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_tools import KafkaTools
from tests.strangers.cast import GROUP, TOPIC, Command
from tests.strangers.script import run
from tests.strangers.stage import Stage

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SESSION_MS, STATIC_SESSION_MS = 6_000, 20_000
"""The second is longer than Java takes to start on a machine with much to do."""


def console_consumer(tools: KafkaTools, *, is_static: bool) -> Command:
    """The command of a member that prints partition and offset of each record.

    Returns:
        The command for a name.
    """

    def command(name: str, servers: str) -> list[str]:
        settings = {
            "client.id": name,
            "session.timeout.ms": STATIC_SESSION_MS if is_static else SESSION_MS,
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 200,
            **({"group.instance.id": name} if is_static else {}),
        }
        said = ["--bootstrap-server", servers, "--topic", TOPIC, "--group", GROUP]
        for key, value in settings.items():
            said += ["--command-property", f"{key}={value}"]
        for key in ("print.partition=true", "print.offset=true", "print.value=false"):
            said += ["--formatter-property", key]
        return [*tools.java(log=None), CONSUMER, "--from-beginning", *said]

    return command


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_console_consumers(kafka_artifacts: Artifacts, tmp_path: Path, *, is_static: bool) -> None:
    """They go through the whole script."""
    command = console_consumer(KafkaTools(kafka_artifacts), is_static=is_static)
    with Stage(command, tmp_path, is_static=is_static, waits=False) as stage:
        assert run(stage) == len(stage.expected)


@pytest.fixture
def tools(kafka_artifacts: Artifacts) -> KafkaTools:
    """Kafka's programs.

    Returns:
        A runner of them.
    """
    return KafkaTools(kafka_artifacts)


@pytest.fixture
def stage(tools: KafkaTools, tmp_path: Path) -> Iterator[Stage]:
    """A console consumer that has read records.

    Yields:
        Its stage.
    """
    command = console_consumer(tools, is_static=False)
    with Stage(command, tmp_path, is_static=False, waits=False) as opened:
        opened.start("a")
        opened.load()
        opened.settle(1)
        yield opened


def asked(tools: KafkaTools, cluster: EmbeddedCluster, *arguments: str) -> list[list[str]]:
    """The words of each line that the tool for groups prints."""
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    return [line.split() for line in tools.run(GROUPS, *servers, *arguments).splitlines() if line]


def test_the_tool_for_groups(tools: KafkaTools, stage: Stage) -> None:
    """It lists, describes, resets, and deletes as the group is: first Stable, then Empty."""
    cluster = stage.cluster
    stage.wait("the offsets are committed", lambda: sum(stage.committed().values()) == 20)
    group = ("--group", GROUP)

    assert asked(tools, cluster, "--list", "--state") == [["GROUP", "STATE"], [GROUP, "Stable"]]
    described = asked(tools, cluster, "--describe", *group)
    assert sorted(row[2:6] for row in described[1:]) == [
        [str(index), "5", "5", "0"] for index in range(4)
    ]
    (member,) = asked(tools, cluster, "--describe", *group, "--members", "--verbose")[1:]
    assert member[0] == GROUP
    assert member[3] == "a"
    assert f"{TOPIC}:0,1,2,3" in " ".join(member)

    stage.end("a", signal.SIGTERM)
    stage.wait("the group is empty", lambda: cluster.group(GROUP).state == "Empty")
    reset = ("--reset-offsets", "--to-earliest", "--topic", TOPIC, "--execute")
    asked(tools, cluster, *group, *reset)
    assert stage.committed() == dict.fromkeys(range(4), 0)
    asked(tools, cluster, *group, "--delete-offsets", "--topic", f"{TOPIC}:0,1")
    assert stage.committed() == {2: 0, 3: 0}
    asked(tools, cluster, *group, "--delete")
    assert cluster.groups() == []
