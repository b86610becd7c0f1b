"""The sender's turn: responses are read before deadlines are looked at, both before the drain."""

from collections.abc import Callable
from typing import Any

import pytest

from kprod.errors import DeliveryTimeout, Persistence
from tests.producer.bench import own_compressor
from tests.producer.stage import Stage

REQUEST_MS = 1_000
ACKS_OF_THE_LEADER: dict[str, Any] = {"acks": "1", "enable_idempotence": False}
NO_RETRIES: dict[str, Any] = {"retries": 0, "enable_idempotence": False}
IDEMPOTENT: dict[str, Any] = {}


def _send_with_callback(stage: Stage, value: bytes, call: Callable[[], object]) -> None:
    stage.producer.send("orders", value, partition=0, on_delivery=lambda *_: call())
    stage.run()


@pytest.mark.parametrize("settings", [ACKS_OF_THE_LEADER, NO_RETRIES, IDEMPOTENT])
def test_a_response_that_arrived_while_a_callback_ran_is_not_late(settings: dict[str, Any]) -> None:
    """The callback takes longer than the request timeout; nothing is sent twice, nothing fails."""
    stage = Stage(request_timeout_ms=REQUEST_MS, **settings)
    stage.send(b"first")
    stage.answer()
    epochs = {held.batch.epoch for held in stage.history}

    def run_long() -> None:
        stage.take().answer(0, 2)
        stage.clock.advance(REQUEST_MS + 1)

    _send_with_callback(stage, b"slow", run_long)
    future = stage.send(b"behind")
    assert len(stage.held) == 2
    stage.answer(0, 1)
    stage.run(3 * REQUEST_MS)
    assert future.done(), "its response was taken for late"
    assert future.exception(0) is None
    assert future.result(0).offset == 2
    assert len(stage.history) == 3, "a record that is in the log was sent again"
    assert {held.batch.epoch for held in stage.history} == epochs


def test_a_response_that_arrived_while_a_call_ran_is_not_late() -> None:
    """A call that another thread asked for, such as a purge, takes as long."""
    stage = Stage(request_timeout_ms=REQUEST_MS, **ACKS_OF_THE_LEADER)
    stage.send(b"first")
    stage.answer()
    future = stage.send(b"v")

    def run_long() -> None:
        stage.take().answer(0, 1)
        stage.clock.advance(REQUEST_MS + 1)

    stage.producer._kprod.sender.call_soon(run_long)
    stage.run(3 * REQUEST_MS)
    assert future.done(), "its response was taken for late"
    assert future.result(0).offset == 1
    assert len(stage.history) == 2, "a record that is in the log was sent again"


def test_every_response_of_a_row_of_long_callbacks_counts() -> None:
    """All responses are in time, and each callback makes the rest wait longer."""
    stage = Stage(request_timeout_ms=REQUEST_MS, **ACKS_OF_THE_LEADER)
    stage.send(b"first")
    stage.answer()
    began_ms = stage.clock.now_ms()

    def run_long() -> None:
        elapsed_ms = stage.clock.now_ms() - began_ms
        while stage.held:
            stage.take().answer(0, 1)
            if elapsed_ms < REQUEST_MS // 2:
                break
        stage.clock.advance(REQUEST_MS * 6 // 10)

    for number in range(5):
        _send_with_callback(stage, b"%d" % number, run_long)
    assert len(stage.held) == 5
    stage.answer(0, 1)
    stage.run(3 * REQUEST_MS)
    assert len(stage.history) == 6, "a record that is in the log was sent again"
    assert stage.clock.now_ms() - began_ms > REQUEST_MS


def test_a_delivery_whose_response_is_here_does_not_expire() -> None:
    """Its deadline passes while an earlier callback runs, after the response arrived."""
    stage = Stage(request_timeout_ms=REQUEST_MS, delivery_timeout_ms=2 * REQUEST_MS)
    stage.send(b"first")
    stage.answer()

    def run_long() -> None:
        stage.take().answer(0, 2)
        stage.clock.advance(3 * REQUEST_MS)

    _send_with_callback(stage, b"slow", run_long)
    future = stage.send(b"behind")
    stage.answer(0, 1)
    stage.run()
    assert future.exception(0) is None
    assert future.result(0).offset == 2


def test_a_delivery_that_expires_while_a_callback_runs_is_not_sent() -> None:
    """Deadlines are looked at by the time after the callback, and before the drain."""
    stage = Stage(request_timeout_ms=REQUEST_MS, delivery_timeout_ms=2 * REQUEST_MS)
    waiting = []

    def run_long() -> None:
        waiting.append(stage.put(b"behind"))
        stage.clock.advance(3 * REQUEST_MS)

    _send_with_callback(stage, b"slow", run_long)
    stage.answer(0, 0)
    stage.run()
    error = waiting[0].exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert len(stage.history) == 1


def test_a_delivery_that_expires_while_a_call_runs_is_not_sent() -> None:
    """Work between two turns that other threads cause may take long, too."""
    stage = Stage(request_timeout_ms=REQUEST_MS, delivery_timeout_ms=2 * REQUEST_MS)
    stage.send(b"first")
    stage.answer()
    future = stage.put(b"v")
    stage.producer._kprod.sender.call_soon(lambda: stage.clock.advance(3 * REQUEST_MS))
    stage.run()
    error = future.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert len(stage.history) == 1


def test_a_request_s_timeout_begins_when_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec may take longer than the request timeout, before the request is written."""
    stage = Stage(request_timeout_ms=REQUEST_MS, compression_type="gzip", **ACKS_OF_THE_LEADER)
    stage.send(b"first")
    stage.answer()
    compressor = own_compressor(stage.producer)
    compress = compressor.compress

    def compress_slowly(plain: bytes) -> Any:
        stage.clock.advance(REQUEST_MS + 1)
        return compress(plain)

    monkeypatch.setattr(compressor, "compress", compress_slowly)
    future = stage.send(b"v" * 1_000)
    stage.run(REQUEST_MS - 1)
    assert len(stage.history) == 2, "the request timed out before its time"
    stage.answer(0, 1)
    assert future.done()
    assert future.result(0).offset == 1


def test_a_wakeup_that_is_consumed_before_the_drain_is_not_lost() -> None:
    """Told to stop while it takes in responses before deadlines, the sender does not sleep."""
    stage = Stage()
    thread, selector = stage.producer._kprod.thread, stage.selector

    def stop_once() -> None:
        selector.before_select = None
        thread.stop_soon()
        stage.producer._kprod.client.wakeup()

    stage.producer._kprod.timer.schedule(10, lambda: None)
    stage.clock.advance(10)
    began_ms = stage.clock.now_ms()
    selector.before_select = stop_once
    selector.horizon_ms = began_ms + 10_000
    thread.run()
    assert selector.before_select is None
    assert stage.clock.now_ms() == began_ms
