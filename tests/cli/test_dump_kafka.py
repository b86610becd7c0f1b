"""`kprod dump` beside Apache Kafka's own tool, on logs that Apache Kafka wrote."""

import pytest

from kprod import Producer
from kprod.model import Codec
from tests.cli import running
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_tools import KafkaTools

LIMIT_S = 60.0
VALUES = (b"value", b"", None, "печать".encode(), b"long " * 2_000)


def records(codec: Codec) -> list[dict[str, object]]:
    """Return what to send: nulls, empty ones, headers of all shapes."""
    headers = [("a", b"1"), ("a", None), ("ключ", b"")]
    return [
        {
            "value": value,
            "key": None if number % 3 else f"{codec.name} {number}".encode(),
            "headers": headers[: number % 4],
        }
        for number, value in enumerate(VALUES * 4)
    ]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_prints_what_kafkas_tool_prints(
    kafka: KafkaNodes, kafka_artifacts: Artifacts, codec: Codec
) -> None:
    """Apache Kafka takes batches of every codec, and both tools say the same of its log."""
    topic = f"dump-{codec.name.lower()}"
    kafka.create_topic(topic, partitions=1)
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "compression.type": codec.name.lower(),
        "linger.ms": 50,
    }
    with Producer(settings) as producer:
        for record in records(codec):
            producer.send(topic, **record)  # type: ignore[arg-type]
        assert producer.flush(LIMIT_S) == 0
    paths = kafka.log_files(topic, 0)
    theirs = KafkaTools(kafka_artifacts).dump_log_segments(paths)
    ours = running.run("dump", "--deep", "--verify", *map(str, paths))
    assert ours.exit_code == 0
    printed = [line for line in ours.stdout.splitlines() if not line.startswith("Dumping")]
    expected = [line for line in theirs.splitlines() if not line.startswith("Dumping")]
    assert printed == expected
    assert sum(line.startswith("|") for line in printed) == len(VALUES) * 4
