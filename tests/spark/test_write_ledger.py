"""Ids of committed writes: entered once they are committed, found when the driver plans a write."""

from collections.abc import Generator

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.config import ProducerConfig
from kprod.errors import KprodError
from kprod.spark import write_ledger
from kprod.spark.task_failure import TaskFailed
from kprod.spark.task_messages import OffsetSpan, TaskReport, WriteReport
from kprod.spark.write_ledger import WriteLedger

TOPIC = "ledger"


@pytest.fixture
def servers() -> Generator[str]:
    """Run a broker that makes no topic by itself.

    Yields:
        Its address.
    """
    with EmbeddedCluster(config=EmbeddedConfig(auto_create_topics=False)) as cluster:
        yield cluster.bootstrap_servers


def report(count: int) -> WriteReport:
    """Return the report of a write of this many records."""
    task = TaskReport()
    task.add("a", 0, OffsetSpan(count, 0, count - 1))
    return WriteReport.of([task.message(0, 0)])


def test_entered_writes_are_found(servers: str) -> None:
    """By another object, and the newest where one id was entered twice."""
    ledger = WriteLedger({"bootstrap.servers": servers}, TOPIC)
    assert ledger.find("one") is None
    ledger.enter("one", report(3))
    ledger.enter("two", report(4))
    ledger.enter("one", report(5))
    again = WriteLedger({"bootstrap.servers": servers, "acks": "1"}, TOPIC)
    assert again.find("one") == report(5)
    assert again.find("two") == report(4)
    assert again.find("on") is None


def test_the_topic_is_compacted(servers: str) -> None:
    """So that it grows with the number of ids alone."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415
        AdminClient,
        ConfigResource,
    )

    WriteLedger({"bootstrap.servers": servers}, TOPIC).find("one")
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    admin = AdminClient({"bootstrap.servers": servers})
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["cleanup.policy"].value == "compact"


def test_options_of_the_rows_are_not_those_of_an_entry(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every in-sync replica has it, by whatever name the producers of rows are known."""
    given: list[ProducerConfig] = []

    def producer_of(settings: dict[str, object]) -> Producer:
        given.append(ProducerConfig.parse(settings))
        return Producer(settings)

    monkeypatch.setattr(write_ledger, "Producer", producer_of)
    rows_own = {"acks": "0", "client_id": "of the rows"}
    ledger = WriteLedger({"bootstrap.servers": servers, **rows_own}, TOPIC)
    assert ledger.find("one") is None
    ledger.enter("one", report(3))
    assert ledger.find("one") == report(3)
    assert [(each.acks, each.client_id) for each in given] == [(-1, "kprod-ledger")]


def test_an_entry_that_fails_says_what_it_means() -> None:
    """Rows are there, the id is not."""
    with EmbeddedCluster(config=EmbeddedConfig(auto_create_topics=False)) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "max.block.ms": "300"}
        with pytest.raises(TaskFailed, match="every row is in its topic, but"):
            WriteLedger(settings, TOPIC).enter("one", report(1))


def test_no_broker_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the reader's patience, before any task."""
    monkeypatch.setattr(write_ledger, "READER_TIMEOUT_MS", 300)
    with pytest.raises(KprodError, match=r"127\.0\.0\.1"):
        WriteLedger({"bootstrap.servers": "127.0.0.1:1"}, TOPIC).find("one")
