"""Futures seen as those of `concurrent.futures`, and what a kept future keeps."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kprod._core.outcome import self_wait as own_wait
from kprod._core.outcome.batch_result import BatchResult
from kprod.errors import DeliveryTimeout, KprodError, KprodTimeout, Purged
from kprod.producer.future import RecordFuture, as_completed, failures_of, wait
from tests.producer.bench import TOPIC, Bench

SETTLE_S = 30.0  # ends a broken test, never its rhythm
MESSAGE_TOO_LARGE = 10


@pytest.fixture
def as_sender() -> Iterator[None]:
    """Let this thread settle everything that is not done."""
    own_wait.enter_sender(lambda result: not result.done)
    yield
    own_wait.leave_sender()


def test_a_view_has_the_record_s_outcome() -> None:
    """Its metadata, or an error of its own."""
    bench = Bench()
    delivered = bench.producer.send(TOPIC, b"a", partition=0)
    views = [delivered.to_concurrent()]
    bench.run()
    views.append(delivered.to_concurrent())
    assert [view.result(0) for view in views] == [delivered.result(0)] * 2

    purged = bench.producer.send(TOPIC, b"b", partition=0)
    view = purged.to_concurrent()
    assert not view.cancel()
    bench.producer.purge()
    for _ in range(2):
        with pytest.raises(Purged):
            view.result(0)
    error = purged.exception(0)
    assert error is not None
    assert error.__traceback__ is None
    assert view.exception(0) is not error


@pytest.mark.usefixtures("as_sender")
def test_a_view_does_not_wait_for_the_thread_that_settles_it() -> None:
    """It rejects as the record does; without waiting it says that it is not settled."""
    bench = Bench()
    view = bench.producer.send(TOPIC, b"a", partition=0).to_concurrent()
    for ask in (view.result, view.exception):
        for timeout in (None, 30.0):
            with pytest.raises(KprodError, match="would wait for itself"):
                ask(timeout)
        with pytest.raises(KprodTimeout):
            ask(0)
    bench.run()
    assert view.result().offset == 0


@pytest.mark.usefixtures("as_sender")
def test_a_view_of_a_settled_record_is_told_before_its_turn() -> None:
    """Callbacks run one after the other; the first may ask for the last record of its batch."""
    bench = Bench()
    offsets: list[int] = []
    bench.producer.send(
        TOPIC, b"a", partition=0, on_delivery=lambda *_: offsets.append(view.result().offset)
    )
    view = bench.producer.send(TOPIC, b"b", partition=0).to_concurrent()
    bench.run()
    assert offsets == [1]
    assert view.result(0).offset == 1


class _Kept:
    """Something large that a function had at hand."""


def _raised() -> tuple[KprodError, "weakref.ref[_Kept]"]:
    """An error with a cause, whose frames hold something."""
    seen: list[weakref.ref[_Kept]] = []

    def encode() -> None:
        kept = _Kept()
        seen.append(weakref.ref(kept))
        try:
            int("x")
        except ValueError as cause:
            raise DeliveryTimeout("late") from cause

    with pytest.raises(DeliveryTimeout) as caught:
        encode()
    return caught.value, seen[0]


def test_a_kept_future_keeps_no_frames() -> None:
    """Neither of the error that ended its batch, nor of one record, nor of their causes."""
    error, seen = _raised()
    record_error, seen_by_record = _raised()
    results = [BatchResult(TOPIC, 0), BatchResult(TOPIC, 0)]
    results[0].complete(error=error)
    results[1].complete(record_errors={0: record_error})
    gc.collect()
    assert seen() is None
    assert seen_by_record() is None
    assert isinstance(error.__cause__, ValueError)


def test_a_result_knows_whether_anybody_would_hear_of_it() -> None:
    """Its waiters count; and a waiter that was told is not told again."""
    result = BatchResult(TOPIC, 0)
    lock = threading.Lock()
    lock.acquire()
    heard = [result.has_no_observers()]
    assert result.add_waiter(lock)
    heard.append(result.has_no_observers())
    result.remove_waiter(lock)
    result.remove_waiter(lock)
    heard.append(result.has_no_observers())
    assert result.add_waiter(lock)
    result.complete(0, -1)
    heard.append(result.has_no_observers())
    assert heard == [True, False, True, False]
    assert not lock.locked()
    assert not result.add_waiter(lock)


ASKS: dict[str, Callable[[RecordFuture, float], object]] = {
    "result": lambda future, timeout: future.result(timeout),
    "exception": lambda future, timeout: future.exception(timeout),
    "wait": lambda future, timeout: wait([future], timeout),
    "as_completed": lambda future, timeout: list(as_completed([future], timeout)),
    "failures_of": lambda future, timeout: failures_of([future], timeout),
    "a view": lambda future, timeout: future.to_concurrent().result(timeout),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize(
    ("timeout", "error"), [(float("nan"), ValueError), ("1", TypeError), ([], TypeError)]
)
def test_nan_is_no_timeout(
    ask: Callable[[RecordFuture, Any], object], timeout: Any, error: type[Exception]
) -> None:
    """It is rejected wherever an outcome is waited for; the record continues."""
    bench = Bench()
    future = bench.producer.send(TOPIC, b"a", partition=0)
    with pytest.raises(error):
        ask(future, timeout)
    bench.run()
    assert future.result(0).offset == 0


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("timeout", [0, -1, -(10**400), float("-inf")])
def test_less_than_nothing_does_not_wait(
    ask: Callable[[RecordFuture, float], object], timeout: float
) -> None:
    """It says at once that nothing is settled."""
    bench = Bench()
    future = bench.producer.send(TOPIC, b"a", partition=0)
    if ask is ASKS["wait"]:
        assert ask(future, timeout) == (set(), {future})
    else:
        with pytest.raises(TimeoutError):
            ask(future, timeout)
    bench.run()
    assert future.result(timeout).offset == 0


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("timeout", [1e300, 10**400, float("inf")])
def test_as_long_as_one_likes_is_a_timeout(
    ask: Callable[[RecordFuture, float], object], timeout: float
) -> None:
    """Somebody waits with it when the record is settled."""
    bench = Bench()
    future = bench.producer.send(TOPIC, b"a", partition=0)
    ((result, _),) = bench.accumulator.incomplete()
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(ask(future, timeout)), daemon=True)
    thread.start()
    while result.has_no_observers() and thread.is_alive():
        threading.Event().wait(0.001)
    bench.run()
    thread.join(SETTLE_S)
    assert len(answers) == 1


@pytest.mark.usefixtures("as_sender")
@pytest.mark.parametrize(
    ("timeout", "error", "text"),
    [
        (float("nan"), ValueError, "got nan"),
        ("1", TypeError, "real number"),
        (-1, KprodTimeout, "not all of"),
        (1e300, KprodError, "would wait for itself"),
        (float("inf"), KprodError, "would wait for itself"),
    ],
)
def test_a_receipt_takes_the_same_timeouts(timeout: Any, error: type[Exception], text: str) -> None:
    """A number that allows a wait is rejected here only for the thread that asks."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"b"], partitions=[0])
    for ask in (receipt.result, receipt.exception):
        with pytest.raises(error, match=text):
            ask(timeout)
    bench.run()
    assert receipt.result(0)[0].count == 1


@pytest.mark.parametrize("again", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_future_is_not_taken_elsewhere(again: Callable[[object], object]) -> None:
    """Nothing would settle it there, and a waiter would wait for ever."""
    bench = Bench()
    future = bench.producer.send(TOPIC, b"a", partition=0)
    with pytest.raises(TypeError, match=r"its result\(\) can"):
        again([future] if again is copy.deepcopy else future)
    bench.run()
    assert pickle.loads(pickle.dumps(future.result(0))) == future.result(0)


def test_its_repr_says_where_the_record_is() -> None:
    """Topic and partition, and whether it is pending, delivered or failed; also after a split."""
    bench = Bench(linger_ms=0)
    futures = [bench.producer.send(TOPIC, b"%d" % n, partition=0) for n in range(2)]
    assert repr(futures[1]) == "<RecordFuture orders-0: pending>"
    while not bench.client.in_flight:
        bench.turn(1)
    bench.reject(bench.client.in_flight[0], MESSAGE_TOO_LARGE)
    bench.turn()
    assert repr(futures[1]) == "<RecordFuture orders-0: pending>"
    bench.run()
    assert [repr(future) for future in futures] == [
        "<RecordFuture orders-0: delivered at offset 0>",
        "<RecordFuture orders-0: delivered at offset 1>",
    ]
    purged = bench.producer.send(TOPIC, b"b", partition=2)
    bench.producer.purge()
    assert repr(purged) == (
        "<RecordFuture orders-2: failed: Purged('the record was purged before it was sent')>"
    )


def test_its_repr_says_that_the_offset_is_unknown() -> None:
    """With acks=0 no broker says where the record is."""
    bench = Bench(linger_ms=0, acks=0, enable_idempotence=False)
    future = bench.producer.send(TOPIC, b"a", partition=0)
    bench.turn()
    bench.turn()
    assert repr(future) == "<RecordFuture orders-0: delivered, offset unknown>"
