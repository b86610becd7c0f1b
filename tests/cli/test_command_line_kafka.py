"""The page on the command line: every row of its table is run against Apache Kafka.

Kafka's own tools are its classes, as its scripts call them.
"""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli import running
from tests.cli.table_rows import ADDRESS, BROKER, FOLLOW, READ, fill, follow, rows
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import KafkaTools

ROWS = [row for row in rows() if row.task not in {BROKER, FOLLOW}]
CLASSES = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
}
LIMIT_S = 60
NAMES = ("orders", "audit", "billing")


def named(command: str, end: str, address: str) -> str:
    """Let a command use topics and a group of its own."""
    for name in NAMES:
        command = command.replace(f" {name}", f" table-{name}-{end}")
    return command.replace(ADDRESS, address)


@pytest.mark.timeout(600)
def test_every_row_is_run_by_both(
    kafka: KafkaNodes, kafka_artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tool has topics of its own; both leave the same number of records."""
    for end in ("own", "foreign"):
        kafka.create_topic(f"table-orders-{end}", partitions=1)
    fill(tmp_path, kafka.bootstrap_servers)
    text = (tmp_path / "records.jsonl").read_text("utf-8")
    (tmp_path / "records.jsonl").write_text(text.replace("orders", "table-orders-own"), "utf-8")
    monkeypatch.chdir(tmp_path)
    java = KafkaTools(kafka_artifacts).java(log=None)
    printed: dict[str, str] = {}
    for row in ROWS:
        _, *arguments = shlex.split(named(row.own, "own", kafka.bootstrap_servers))
        result = running.run(*arguments)
        assert result.exit_code == 0, f"{row.own}: {result.output}"
        if row.foreign:
            printed[row.task] = _foreign(
                java, named(row.foreign, "foreign", kafka.bootstrap_servers)
            )
    assert printed["see offsets"].strip() == "table-orders-foreign:0:6"
    own = running.run(
        *("topics", "describe", "table-orders-own", "--offsets", "--json"),
        *("-b", kafka.bootstrap_servers),
    )
    assert '"first_offset": 0, "end_offset": 8' in own.stdout  # two rows have no such tool
    assert "payload: v" in printed["see a segment"]
    assert printed["measure"].startswith("1000 records sent")
    _check_what_was_read(printed)


def _check_what_was_read(printed: Mapping[str, str]) -> None:
    """The six records that Kafka's own producer could send."""
    values = ["one", "two", "value", "NULL", "value", "null"]
    assert printed["read a topic"].splitlines()[: len(values)] == values
    assert printed["read some records"] == READ["read some records"]
    assert printed["read committed records only"].splitlines()[: len(values)] == values
    keys = ["NULL:one", "NULL:two", "key:value", "key:NULL", "key:value", "key:NULL"]
    assert printed["read keys and values"].splitlines()[: len(keys)] == keys
    assert printed["read headers"].splitlines()[0] == "NO_HEADERS\tone"


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("interruptible")
def test_both_follow_a_topic(kafka: KafkaNodes, kafka_artifacts: Artifacts) -> None:
    """Each prints records that are sent after it has begun."""
    (row,) = (row for row in rows() if row.task == FOLLOW)
    java = KafkaTools(kafka_artifacts).java(log=None)
    for end, command in (("own", row.own), ("foreign", row.foreign)):
        topic = f"table-orders-follow-{end}"
        kafka.create_topic(topic, partitions=1)
        _, *words = shlex.split(named(command, f"follow-{end}", kafka.bootstrap_servers))
        program = [sys.executable, "-m", "kprod.cli"]
        if end == "foreign":
            program = [*java, CLASSES["kafka-console-consumer.sh"]]
        assert "later\r\n" in follow([*program, *words], kafka.bootstrap_servers, topic)


def _foreign(java: list[str], command: str) -> str:
    words = shlex.split(command)
    stdin = None
    if "<" in words:
        at = words.index("<")
        stdin = Path(words[at + 1]).read_bytes()
        words = words[:at]
    result = subprocess.run(
        [*java, CLASSES[words[0]], *words[1:]],
        input=stdin,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, f"{command}: {result.stdout!r} {result.stderr!r}"
    return result.stdout.decode()
