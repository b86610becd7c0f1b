"""One line for each change of state, none for a record."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.metrics.state_log import Event, StateLog
from kprod.protocol.error_table import ErrorCode
from tests.producer.stage import Stage


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - for every stage
def _close_stages() -> Iterator[None]:
    yield
    opened, Stage.opened[:] = list(Stage.opened), []
    for stage in opened:
        stage.close()


class _Lines(logging.Handler):
    """Keeps the log records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """Collect everything that kprod logs from here on, with details."""
    handler, logger = _Lines(), logging.getLogger("kprod")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)
    logger.setLevel(level)


def _events(lines: list[logging.LogRecord]) -> list[str]:
    return [line.kprod_event for line in lines if hasattr(line, "kprod_event")]


def _fields(lines: list[logging.LogRecord], event: Event) -> list[dict[str, Any]]:
    return [
        line.kprod_fields  # type: ignore[attr-defined]
        for line in lines
        if getattr(line, "kprod_event", None) == event.name.lower()
    ]


def test_a_line_is_for_people_and_for_programs(lines: list[logging.LogRecord]) -> None:
    """Text with every field, and the same as attributes of the log record."""
    StateLog("clicks").note(Event.DISCONNECTED, node=3, reason="broken pipe", empty="")
    (line,) = lines
    assert line.getMessage() == "clicks disconnected node=3 reason='broken pipe' empty=''"
    assert (line.name, line.levelno) == ("kprod.state", logging.INFO)
    assert vars(line)["kprod_client"] == "clicks"
    assert vars(line)["kprod_event"] == "disconnected"
    assert vars(line)["kprod_fields"] == {"node": 3, "reason": "broken pipe", "empty": ""}


def test_what_nobody_listens_to_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    """Below the logger's level no text is made."""

    class Unwritable:
        def __str__(self) -> str:
            raise AssertionError("it was written")

    caplog.set_level(logging.WARNING)
    StateLog("clicks").note(Event.CONNECTED, node=Unwritable())
    assert caplog.records == []


def test_a_producer_s_life(lines: list[logging.LogRecord]) -> None:
    """Connections, the producer id, and the two ends of closing, in this order."""
    stage = Stage(client_id="clicks")
    stage.send(b"")
    stage.answer()
    stage.producer.close(0)
    events = _events(lines)
    assert events[0] == "connected"
    assert "producer_id" in events
    assert events.index("closing") < events.index("disconnected") < events.index("closed")
    assert events.count("connected") == events.count("disconnected")
    assert {vars(line)["kprod_client"] for line in lines if line.name == "kprod.state"} == {
        "clicks"
    }
    assert _fields(lines, Event.PRODUCER_ID) == [{"id": 1_000, "epoch": 0}]


def test_changes_are_told_whatever_the_level_is(caplog: pytest.LogCaptureFixture) -> None:
    """The producer's changes and those of its connections, with their particulars."""
    caplog.set_level(logging.CRITICAL, "kprod.state")
    noted: list[tuple[Event, dict[str, object]]] = []
    stage = Stage(on_note=lambda event, fields: noted.append((event, dict(fields))))
    stage.send(b"")
    stage.answer()
    stage.producer.close(0)
    events = [event for event, _ in noted]
    assert caplog.records == []
    assert events[0] is Event.CONNECTED
    assert events[-1] is Event.CLOSED
    assert events.count(Event.DISCONNECTED) == events.count(Event.CONNECTED)
    assert (Event.PRODUCER_ID, {"id": 1_000, "epoch": 0}) in noted
    assert "address" in noted[0][1]
    assert "node" in noted[0][1]


def test_leaders_that_change(lines: list[logging.LogRecord]) -> None:
    """One line for all partitions of a topic that went from one node to another."""
    stage = Stage({"orders": [1, 1, 2], "payments": [1]})
    for topic, count in (("orders", 3), ("payments", 1)):
        for partition in range(count):
            stage.send(b"", topic, partition)
    while stage.held:
        stage.answer()
    lines.clear()
    stage.brokers.leaders["orders"] = [3, 3, 2]
    stage.send(b"")
    stage.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stage.run(10_000)
    assert _fields(lines, Event.LEADER_CHANGED) == [
        {"topic": "orders", "partitions": (0, 1), "from_id": 1, "to_id": 3}
    ]


def test_an_epoch_that_ends(lines: list[logging.LogRecord]) -> None:
    """With the reason."""
    stage = Stage()
    stage.send(b"")
    stage.answer()
    stage.send(b"rejected")
    stage.answer(ErrorCode.INVALID_RECORD)
    (fields,) = _fields(lines, Event.EPOCH_ENDED)
    assert (fields["id"], fields["epoch"]) == (1_000, 0)
    assert "INVALID_RECORD" in fields["reason"] or "orders-0" in fields["reason"]


def test_a_producer_that_cannot_continue(lines: list[logging.LogRecord]) -> None:
    """Said once, as an error."""
    stage = Stage()
    stage.send(b"")
    stage.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    stage.run(10)
    assert len(_fields(lines, Event.FAILED)) == 1
    assert [line.levelname for line in lines if "cannot continue" in line.getMessage()] == ["ERROR"]


def test_no_line_is_written_for_a_record(lines: list[logging.LogRecord]) -> None:
    """Ten times the records in as many batches: as many lines, at every level."""
    counts = []
    with EmbeddedCluster(brokers=1, topics={"orders": 4}) as cluster:
        for record_count in (200, 2_000):
            lines.clear()
            _send(cluster.bootstrap_servers, record_count)
            counts.append(sum(not line.name.startswith("kprod.broker") for line in lines))
    assert counts[0] == counts[1] < 20


def _send(address: str, record_count: int) -> None:
    """In batches of a few, each record with a callback."""
    with kprod.Producer(bootstrap_servers=address, linger_ms=0) as producer:
        for number in range(record_count):
            producer.send("orders", b"x", partition=number % 4, on_delivery=lambda *_: None)
            if number % 20 == 0:
                producer.flush(30)
