"""A producer's calls of its recorder, without threads: every metric from known events."""

import math
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.clock import ManualClock, SystemClock
from kprod.errors import BufferTimeout
from kprod.metrics.export import FAMILIES
from kprod.metrics.recorder import CALLER_NAMES, NODES_MAX, MetricsRecorder, SilentRecorder
from kprod.metrics.table import Group
from kprod.producer.wiring import Environment
from kprod.protocol.error_table import ErrorCode
from tests.producer.stage import Stage
from tools import generate_metrics

ADDITIONS = 20_000  # per thread


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - for every stage
def _close_stages() -> object:
    yield
    opened, Stage.opened[:] = list(Stage.opened), []
    for stage in opened:
        stage.close()


def _of(stage: Stage, group: str = "producer-metrics") -> dict[str, float]:
    return stage.producer.metrics()[group]


def test_a_delivered_record_is_counted_once() -> None:
    """In the producer, its topic and its node; sizes and times are those of the one batch."""
    stage = Stage()
    before = _of(stage)
    future = stage.send(b"x" * 100)
    assert _of(stage)["requests-in-flight"] == 1
    stage.clock.advance(7)
    stage.answer()
    assert future.done()
    after = _of(stage)
    assert after["record-send-total"] - before["record-send-total"] == 1
    assert after["requests-in-flight"] == 0
    assert after["request-latency-max"] == 7
    assert after["batch-size-max"] == len(stage.history[-1].batch.raw)
    assert after["record-error-total"] == after["record-retry-total"] == 0
    topic = _of(stage, "producer-topic-metrics.orders")
    assert topic["record-send-total"] == 1
    assert topic["byte-total"] == sum(len(held.batch.raw) for held in stage.history)
    node = _of(stage, "producer-node-metrics.node-1")
    assert node["request-latency-max"] == 7
    assert node["outgoing-byte-total"] > topic["byte-total"]


def test_time_in_the_queue_is_from_the_first_record() -> None:
    """Linger is most of it."""
    stage = Stage(linger_ms=40)
    stage.put(b"first")
    stage.run(100)
    assert _of(stage)["record-queue-time-max"] == 40


def test_retries_failures_and_splits_are_counted() -> None:
    """By records, in the producer and in the topic."""
    stage = Stage()
    stage.put(b"a")
    stage.put(b"b")
    stage.run()
    stage.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stage.run(10_000)
    stage.answer(ErrorCode.MESSAGE_TOO_LARGE)
    stage.answer()
    stage.answer(ErrorCode.INVALID_RECORD)
    metrics = _of(stage)
    assert metrics["record-retry-total"] == 2
    assert metrics["batch-split-total"] == 1
    assert metrics["record-error-total"] == 1
    topic = _of(stage, "producer-topic-metrics.orders")
    assert (topic["record-retry-total"], topic["record-error-total"]) == (2, 1)


def test_what_a_close_fails_is_an_error() -> None:
    """Each record once."""
    stage = Stage()
    stage.send(b"in flight")
    stage.put(b"unsent")
    assert stage.producer.close(0) == 2
    assert _of(stage)["record-error-total"] == 2


def test_connections_that_come_and_go() -> None:
    """The count is of those that can be used now."""
    stage = Stage()
    stage.send(b"")
    stage.answer()
    before = _of(stage)
    assert before["connection-count"] == before["connection-creation-total"] >= 1
    stage.drop_connections()
    stage.run()
    after = _of(stage)
    assert after["connection-close-total"] == before["connection-count"]
    assert after["connection-count"] == (
        after["connection-creation-total"] - after["connection-close-total"]
    )


def test_sends_that_get_no_memory_are_counted() -> None:
    """With the time that they waited; nobody waits afterwards."""
    stage = Stage(buffer_memory=32_768, batch_size=16_384)
    stage.put(b"x" * 16_000)
    stage.put(b"x" * 16_000)
    with pytest.raises(BufferTimeout):
        stage.put(b"x" * 16_000)
    metrics = _of(stage)
    assert metrics["buffer-exhausted-total"] == 1
    assert metrics["waiting-threads"] == 0
    assert metrics["buffer-available-bytes"] < metrics["buffer-total-bytes"] == 32_768


def test_old_events_leave_averages_and_rates() -> None:
    """Totals stay; what nothing was recorded for is NaN."""
    stage = Stage()
    stage.send(b"")
    stage.answer()
    stage.run(200_000)
    metrics = _of(stage)
    assert metrics["record-send-total"] == 1
    assert metrics["record-send-rate"] == 0
    assert math.isnan(metrics["request-latency-avg"])
    assert math.isnan(metrics["batch-size-max"])


def test_numbers_of_nodes_cannot_fill_the_memory() -> None:
    """A cluster that renumbers its brokers again and again has a limited number of groups."""
    recorder = MetricsRecorder(ManualClock())
    for node_id in range(NODES_MAX + 100):
        recorder.requested(node_id, 10)
    metrics = recorder.read(6_000, {})
    assert len(metrics) == 1 + NODES_MAX
    assert metrics["producer-metrics"]["request-total"] == NODES_MAX + 100


def test_a_silent_recorder_keeps_nothing() -> None:
    """All that others know is still told."""
    assert SilentRecorder().read(0, {"waiting-threads": 1.0}) == {
        "producer-metrics": {"waiting-threads": 1.0}
    }
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        environment = Environment(has_metrics=False)
        with kprod.Producer(
            bootstrap_servers=cluster.bootstrap_servers, environment=environment
        ) as producer:
            producer.send("orders", b"").result(30)
            assert "record-send-total" not in producer.metrics()["producer-metrics"]


def test_the_table_lists_the_events() -> None:
    """Every metric of the producer has its row in the documentation, and the other way round."""
    stage = Stage()
    stage.send(b"")
    stage.answer()
    for group, told in stage.producer.metrics().items():
        kind = group.partition(".")[0]
        assert told.keys() == {f.name for f in FAMILIES if f.group.value == kind}
    assert {family.group for family in FAMILIES} == set(Group)


def test_the_page_is_generated() -> None:
    """`make docs` has been run since the table changed."""
    page = Path(generate_metrics.PAGE).read_text(encoding="utf-8")
    assert page == generate_metrics.page()


def test_what_many_threads_count_is_all_there() -> None:
    """Each addition is one step, wherever threads are switched."""
    recorder = MetricsRecorder(SystemClock())

    def count() -> None:
        for _ in range(ADDITIONS):
            recorder.waited_for_memory(1, in_vain=True)
            recorder.waited_for_metadata(2)
            recorder.flushed(3)

    threads = [threading.Thread(target=count) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert {name: getattr(recorder.callers, name) for name in CALLER_NAMES} == {
        "memory_waits_ns": 4 * ADDITIONS,
        "rejected_for_memory": 4 * ADDITIONS,
        "metadata_waits_ns": 8 * ADDITIONS,
        "flushes_ns": 12 * ADDITIONS,
    }


def test_the_sender_does_not_wait_for_counting_threads() -> None:
    """Another thread is interrupted at any line of its counting; a window's turn continues."""
    recorder = MetricsRecorder(SystemClock())

    def turn(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith("recorder.py"):
            return None
        if event == "line":
            sender = threading.Thread(target=recorder.next_window, args=(10**9,), daemon=True)
            sender.start()
            sender.join(10)
            assert not sender.is_alive()
        return turn

    previous = sys.gettrace()
    sys.settrace(turn)
    try:
        recorder.waited_for_memory(1, in_vain=True)
        recorder.waited_for_metadata(1)
        recorder.flushed(1)
        recorder.read(10**9, {})
    finally:
        sys.settrace(previous)
