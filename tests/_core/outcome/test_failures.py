"""Asking many records at once which of them failed."""

import contextlib
import random
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.outcome.batch_result import BatchResult
from kprod._core.outcome.failures import failures_of
from kprod._core.outcome.record_future import RecordFuture
from kprod.clock import SystemClock
from kprod.errors import KprodError, KprodTimeout
from tests.producer.bench import TOPIC, Bench

RECORD_COUNT = 5  # per partition
LOST = KprodError("lost")

Settle = Callable[[BatchResult], object]


def _split(*outcomes: Settle) -> Settle:
    """Split a batch in two behind its second record, and settle both parts."""

    def settle(result: BatchResult) -> None:
        parts = [BatchResult(result.topic, result.partition) for _ in outcomes]
        result.forward(list(zip((0, 2), parts, strict=True)))
        for part, outcome in zip(parts, outcomes, strict=True):
            outcome(part)

    return settle


def _deliver(result: BatchResult) -> None:
    result.complete(base_offset=7)


def _lose(result: BatchResult) -> None:
    result.complete(error=LOST)


def _reject_second(result: BatchResult) -> None:
    result.complete(record_errors={1: LOST})


def _reject_none(result: BatchResult) -> None:
    result.complete(record_errors={})


OUTCOMES: list[tuple[Settle, set[int]]] = [
    (_deliver, set()),
    (_lose, {0, 1, 2, 3, 4}),
    (_reject_second, {1}),
    (_reject_none, set()),
    (_split(_deliver, _lose), {2, 3, 4}),
    (_split(_lose, _reject_second), {0, 1, 3}),
    (_split(_deliver, _split(_lose, _deliver)), {2, 3}),
]
"""How a batch is settled, and which of its records fail by it."""


def _sent(partition_count: int) -> tuple[list[list[RecordFuture]], list[BatchResult]]:
    """The futures and the batch of each partition; nobody settles them but the test."""
    bench = Bench((0,) * partition_count)
    futures = [
        [bench.producer.send(TOPIC, b"v", partition=partition) for _ in range(RECORD_COUNT)]
        for partition in range(partition_count)
    ]
    results = [queue.result for queue in bench.head.queues]
    bench.accumulator.abort(lambda _: None)  # it need not know what becomes of them
    return futures, results


@given(
    st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=6), st.randoms(use_true_random=False)
)
def test_those_that_failed_are_told_in_order(
    outcomes: list[tuple[Settle, set[int]]], source: random.Random
) -> None:
    """Whatever became of their batches, and however they stand among each other."""
    futures, results = _sent(len(outcomes))
    for result, (settle, _) in zip(results, outcomes, strict=True):
        settle(result)
    places = [(p, index) for p in range(len(outcomes)) for index in range(RECORD_COUNT)]
    source.shuffle(places)

    found = failures_of([futures[p][index] for p, index in places])

    assert found == [futures[p][index] for p, index in places if index in outcomes[p][1]]
    assert all(future.exception(0) is LOST for future in found)


@pytest.mark.parametrize("made", [iter, tuple, list])
def test_any_iterable_will_do(made: Callable[[Iterable[RecordFuture]], Any]) -> None:
    """An iterator, too; and the same record twice is told twice."""
    (futures,), (result,) = _sent(1)
    _reject_second(result)
    assert failures_of(made([*futures, *futures])) == [futures[1], futures[1]]
    assert failures_of(made([])) == []


@contextlib.contextmanager
def _once_waited_for(result: BatchResult, act: Callable[[], object]) -> Generator[None, None, None]:
    """In another thread, do something when somebody waits for a batch."""
    clock, pause = SystemClock(), threading.Event()

    def run() -> None:
        ends_ms = clock.now_ms() + 30_000
        while result.has_no_observers() and clock.now_ms() < ends_ms:
            pause.wait(0.001)
        act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("timeout", [None, 30.0, float("inf")])
def test_unsettled_records_are_waited_for(timeout: float | None) -> None:
    """And a batch that is split meanwhile is waited for in its parts."""
    (futures,), (result,) = _sent(1)
    with _once_waited_for(result, partial(_split(_deliver, _lose), result)):
        assert failures_of(futures, timeout) == futures[2:]


def test_a_list_that_changes_meanwhile_is_asked_about_as_it_was() -> None:
    """Or a record that is taken out would pass for delivered, and one put in be waited for."""
    (first, second), (waited, rest) = _sent(2)
    _lose(rest)
    futures = [*first, *second]

    def change() -> None:
        futures.clear()
        futures.extend(_sent(1)[0][0])
        _deliver(waited)

    with _once_waited_for(waited, change):
        assert failures_of(futures) == second


@pytest.mark.parametrize("timeout", [0, 0.01, -1])
def test_time_may_be_over_before(timeout: float) -> None:
    """It says how many are settled, wherever they stand, and the records continue."""
    (first, second), (settled, result) = _sent(2)
    _deliver(settled)
    for futures in ([*first, *second], [*second, *first]):
        with pytest.raises(KprodTimeout, match=rf"settled within {timeout} s: 5 of 10;"):
            failures_of(futures, timeout)
    _lose(result)
    assert failures_of([*first, *second], timeout) == second


def test_time_may_be_over_in_a_later_wait() -> None:
    """Records settled until then are counted."""
    futures, results = _sent(3)
    with (
        _once_waited_for(results[0], partial(_deliver, results[0])),
        pytest.raises(KprodTimeout, match=r"settled within 2\.0 s: 5 of 15;"),
    ):
        failures_of([future for some in futures for future in some], 2.0)


def test_what_a_signal_handler_raises_is_no_timeout() -> None:
    """Whatever its class."""
    (futures,), (result,) = _sent(1)
    told = KprodTimeout("the handler's own")

    def interrupt(*_: object) -> None:
        raise told

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    try:
        with (
            _once_waited_for(result, partial(signal.pthread_kill, main, signal.SIGUSR1)),
            pytest.raises(KprodTimeout) as raised,
        ):
            failures_of(futures, 30)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value is told
    _deliver(result)
    assert failures_of(futures) == []


@pytest.mark.parametrize("other", [None, 1, threading.Event()])
def test_something_else_is_rejected(other: Any) -> None:
    """With the type that it has."""
    (futures,), (result,) = _sent(1)
    _deliver(result)
    with pytest.raises(TypeError, match=type(other).__name__):
        failures_of([*futures, other])
    with pytest.raises(TypeError):
        failures_of(other)


@pytest.mark.parametrize(
    ("timeout", "error"), [(float("nan"), ValueError), ("soon", TypeError), ([], TypeError)]
)
def test_a_timeout_that_is_none_is_rejected(timeout: Any, error: type[Exception]) -> None:
    """Before anything is waited for."""
    (futures,), _ = _sent(1)
    with pytest.raises(error):
        failures_of(futures, timeout)
