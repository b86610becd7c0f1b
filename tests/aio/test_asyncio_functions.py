"""A delivery, or a receipt, wherever asyncio takes something to wait for: each of its functions."""

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from kprod import AsyncProducer
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError
from kprod.model import RecordMetadata
from kprod.producer.future import RecordFuture, as_completed
from kprod.protocol.error_table import InvalidRecord
from tests.aio.conftest import Run
from tests.producer.bench import TOPIC, Bench

MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87
RETURN_WHENS = [asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION]


def _bench() -> tuple[Bench, list[Any]]:
    """Two partitions' batches, two records in each, and both requests in flight."""
    bench = Bench(linger_ms=0)
    bench.lead(0, 1)
    deliveries = [bench.producer.send(TOPIC, b"%d" % n, partition=n // 2) for n in range(4)]
    while len(bench.client.in_flight) < 2:
        bench.turn(1)
    return bench, deliveries


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _settle(bench: Bench, place: int = 0, *, fails: bool = False) -> None:
    """Answer one of the requests in flight."""
    carried = bench.client.in_flight[place]
    if fails:
        bench.reject(carried, INVALID_RECORD)
    else:
        bench.answer(carried)
    bench.turn()


@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize("return_when", RETURN_WHENS)
@pytest.mark.parametrize("fails", [False, True])
def test_wait(run: Run[Any], return_when: str, timeout: float | None, *, fails: bool) -> None:
    """It returns after the first batch if that is asked for, after the failed one, or after all."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        waiting = asyncio.create_task(
            asyncio.wait(deliveries, timeout=timeout, return_when=return_when)
        )
        await _turns()
        assert not waiting.done()
        _settle(bench, fails=fails)
        await _turns()
        ends_early = return_when == asyncio.FIRST_COMPLETED or (
            return_when == asyncio.FIRST_EXCEPTION and fails
        )
        assert waiting.done() == ends_early
        _settle(bench)
        done, pending = await waiting
        expected = set(deliveries[:2] if ends_early else deliveries)
        assert done == expected
        assert pending == set(deliveries) - expected

    run(deliver())


def test_wait_with_a_timeout_returns_pending_futures(run: Run[Any]) -> None:
    """The deliveries continue, nothing of the wait stays with them, and another wait finds them."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        for _ in range(3):
            done, pending = await asyncio.wait(deliveries, timeout=0)
            assert (done, pending) == (set(), set(deliveries))
        assert [delivery.cancel() for delivery in deliveries] == [False] * 4
        _settle(bench)
        _settle(bench)
        done, pending = await asyncio.wait(deliveries)
        assert (done, pending) == (set(deliveries), set())
        assert [delivery.result(0).offset for delivery in deliveries] == [0, 1, 0, 1]

    run(deliver())


def test_wait_for_settled_records(run: Run[Any]) -> None:
    """Before the wait begins; it returns all the same."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        _settle(bench)
        _settle(bench)
        assert (await asyncio.wait(deliveries))[0] == set(deliveries)

    run(deliver())


def test_wait_follows_a_split(run: Run[Any]) -> None:
    """The batch is too large for its broker; its parts are answered one by one."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        waiting = asyncio.create_task(asyncio.wait(deliveries))
        of_the_split = asyncio.create_task(asyncio.wait(deliveries[:2]))
        await _turns()
        bench.reject(bench.client.in_flight[0], MESSAGE_TOO_LARGE)
        bench.turn()
        await _turns()
        assert not of_the_split.done()
        bench.run(10)
        assert (await of_the_split)[0] == set(deliveries[:2])
        done, pending = await waiting
        assert (done, pending) == (set(deliveries), set())

    run(deliver())


async def _gathered(deliveries: list[Any]) -> list[RecordMetadata]:
    found: list[RecordMetadata] = await asyncio.gather(*deliveries)
    return found


async def _shielded(deliveries: list[Any]) -> list[RecordMetadata]:
    return [await asyncio.shield(delivery) for delivery in deliveries]


async def _waited_for(deliveries: list[Any]) -> list[RecordMetadata]:
    return [await asyncio.wait_for(delivery, 60) for delivery in deliveries]


async def _as_completed(deliveries: list[Any]) -> list[RecordMetadata]:
    found = [await each for each in asyncio.as_completed(deliveries)]
    return sorted(found, key=lambda metadata: (metadata.partition, metadata.offset))


async def _ensured(deliveries: list[Any]) -> list[RecordMetadata]:
    return [await asyncio.ensure_future(delivery) for delivery in deliveries]


async def _in_a_group(deliveries: list[Any]) -> list[RecordMetadata]:
    async def awaited(delivery: Awaitable[RecordMetadata]) -> RecordMetadata:
        return await delivery

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(awaited(delivery)) for delivery in deliveries]
    return [task.result() for task in tasks]


FUNCTIONS: dict[str, Callable[[list[Any]], Coroutine[Any, Any, list[RecordMetadata]]]] = {
    "gather": _gathered,
    "shield": _shielded,
    "wait_for": _waited_for,
    "as_completed": _as_completed,
    "ensure_future": _ensured,
    "TaskGroup": _in_a_group,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_each_function_gives_the_metadata(
    run: Run[Any], function: Callable[[list[Any]], Coroutine[Any, Any, list[RecordMetadata]]]
) -> None:
    """The result of each record, whenever it is settled."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        waiting = asyncio.create_task(function(deliveries))
        await _turns()
        _settle(bench)
        await _turns()
        assert not waiting.done()
        _settle(bench)
        assert [(m.partition, m.offset) for m in await waiting] == [(0, 0), (0, 1), (1, 0), (1, 1)]

    run(deliver())


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_cancelled_wait_leaves_the_record_alone(
    run: Run[Any], function: Callable[[list[Any]], Coroutine[Any, Any, list[RecordMetadata]]]
) -> None:
    """It ends at once; the records are delivered."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        waiting = asyncio.create_task(function(deliveries))
        await _turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bench.run(10)
        assert [delivery.result(0).offset for delivery in deliveries] == [0, 1, 0, 1]

    run(deliver())


def test_what_send_returns_can_be_given_to_a_task(run: Run[Any]) -> None:
    """It is a coroutine: `asyncio.wait` takes a task of it, `gather` and the others itself."""

    async def deliver(servers: str) -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            with pytest.raises(TypeError, match="coroutines is forbidden"):
                await asyncio.wait([rejected := producer.send("orders", b"x")])  # type: ignore[type-var]
            rejected.close()
            done, _ = await asyncio.wait(
                [asyncio.ensure_future(producer.send("orders", b"%d" % n)) for n in range(3)]
            )
            deliveries: list[Any] = [task.result() for task in done]
            deliveries += await asyncio.gather(*(producer.send("orders", b"y") for _ in range(3)))
            settled, _ = await asyncio.wait(deliveries)
            assert sorted(one.result().offset for one in settled) == [0, 1, 2, 3, 4, 5]

    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as cluster:
        run(deliver(cluster.bootstrap_servers))


def test_a_callback_is_called_by_its_loop_in_its_context(run: Run[Any]) -> None:
    """Not inside the call that adds it, nor by the thread that settles the record."""
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)

    async def deliver() -> None:
        bench, deliveries = _bench()
        called: list[tuple[object, int]] = []

        def call(delivery: RecordFuture) -> None:
            asyncio.get_running_loop()
            called.append((delivery, number.get()))

        given = contextvars.copy_context()
        given.run(number.set, 7)
        number.set(1)
        deliveries[0].add_done_callback(call)
        deliveries[0].add_done_callback(call, context=given)
        number.set(2)
        _settle(bench)
        assert called == []
        deliveries[1].add_done_callback(call)
        assert called == []
        await _turns()
        assert called == [(deliveries[1], 2), (deliveries[0], 1), (deliveries[0], 7)]
        _settle(bench)

    run(deliver())


def test_what_a_callback_raises_goes_to_its_loop(run: Run[Any]) -> None:
    """To the loop's exception handler; the other callbacks are called."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(type(context["exception"]))
        )
        for callback in (lambda _: 1 / 0, told.append):
            deliveries[0].add_done_callback(callback)
        _settle(bench)
        _settle(bench)
        await _turns()
        assert told == [ZeroDivisionError, deliveries[0]]

    run(deliver())


def test_a_callback_is_taken_back_where_it_was_added(run: Run[Any]) -> None:
    """As often as it was added there, also from a batch that was split; others stay."""
    bench, deliveries = _bench()
    called: list[object] = []
    first, second = called.append, partial(called.append)
    deliveries[0].add_done_callback(first)
    deliveries[0].add_done_callback(first)
    deliveries[0].add_done_callback(second)
    assert deliveries[0].remove_done_callback(first) == 2

    async def deliver() -> None:
        assert deliveries[0].remove_done_callback(second) == 0  # it is not this loop's
        for delivery in deliveries:
            delivery.add_done_callback(first)
            delivery.add_done_callback(second)
            delivery.add_done_callback(first)
        assert deliveries[0].remove_done_callback(first) == 2
        bench.reject(bench.client.in_flight[0], MESSAGE_TOO_LARGE)
        bench.turn()
        assert deliveries[1].remove_done_callback(first) == 2
        await _turns()
        assert deliveries[0].remove_done_callback(second) == 1
        assert deliveries[0].remove_done_callback(second) == 0
        bench.run(10)
        await _turns()

    run(deliver())
    assert called.count(deliveries[0]) == 1  # outside of every loop
    assert called.count(deliveries[1]) == 1
    assert [called.count(delivery) for delivery in deliveries[2:]] == [3, 3]
    assert deliveries[0].remove_done_callback(second) == 0


def test_waits_of_a_stopped_loop_do_not_need_it(run: Run[Any]) -> None:
    """`as_completed` and a view hear of the record from the thread that settles it."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        await _turns()
        view = deliveries[0].to_concurrent()
        _settle(bench)
        _settle(bench)
        assert view.result(0).offset == 0
        assert set(as_completed(deliveries, 0)) == set(deliveries)

    run(deliver())


def test_purged_records_are_released(run: Run[Any]) -> None:
    """A callback that waited is kept by nobody afterwards, though its record continues."""

    class Called:
        def __call__(self, _: RecordFuture) -> None: ...

    async def deliver() -> None:
        bench, deliveries = _bench()
        await _turns()
        callback = Called()
        gone = weakref.ref(callback)
        deliveries[0].add_done_callback(callback)
        assert deliveries[0].remove_done_callback(callback) == 1
        del callback
        gc.collect()
        assert gone() is None
        bench.run(10)

    run(deliver())


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_receipt_can_be_waited_for_likewise(run: Run[Any], timeout: float | None) -> None:
    """With deliveries beside it; its callbacks are its loop's, and can be taken back."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        receipt = bench.producer.send_many(TOPIC, [b"a", b"b"], partitions=[0, 0])
        called: list[object] = []
        receipt.add_done_callback(called.append)
        receipt.add_done_callback(called.append)
        assert receipt.remove_done_callback(called.append) == 2
        receipt.add_done_callback(called.append)
        done, pending = await asyncio.wait([receipt, *deliveries], timeout=0)
        assert (done, pending) == (set(), {receipt, *deliveries})
        waiting = asyncio.create_task(asyncio.wait([receipt, *deliveries], timeout=timeout))
        await _turns()
        bench.run(10)
        assert called == []
        assert await waiting == ({receipt, *deliveries}, set())
        assert called == [receipt]
        assert not receipt.cancel()
        assert not receipt.cancelled()
        assert (await asyncio.gather(receipt))[0][0].count == 2

    run(deliver())


def test_the_first_exception_is_a_delivery_s(run: Run[Any]) -> None:
    """`done` holds the delivery itself, which raises what ended it."""

    async def deliver() -> None:
        bench, deliveries = _bench()
        waiting = asyncio.create_task(asyncio.wait(deliveries, return_when=asyncio.FIRST_EXCEPTION))
        await _turns()
        _settle(bench, fails=True)
        done, _ = await waiting
        assert done == set(deliveries[:2])
        for delivery in done:
            assert isinstance(delivery, RecordFuture)
            assert not delivery.cancelled()
            with pytest.raises(InvalidRecord):
                delivery.result(0)
        bench.run(10)
        with pytest.raises(KprodError):
            await deliveries[0]

    run(deliver())
