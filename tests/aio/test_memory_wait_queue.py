"""A full buffer: which tasks wait for room, in which order, and those that give up."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kprod import AsyncProducer
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.aio import memory_wait_queue as room_line
from kprod.broker import EmbeddedCluster
from kprod.errors import BufferTimeout, ClosedError
from kprod.producer import buffer_pool
from tests.aio.conftest import Run
from tests.producer.bench import TOPIC, Bench

CHUNK = 16_384
VALUE = b"v" * 12_000


def _full(chunks: int = 2, **settings: Any) -> tuple[Bench, AsyncProducer]:
    """A buffer of `count` chunks, all used by records of one partition each."""
    bench = Bench(
        (0, 0, 0),
        buffer_memory=chunks * CHUNK,
        linger_ms=60_000,
        **{"max_block_ms": 60_000, **settings},
    )
    for partition in range(chunks):
        bench.producer.send(TOPIC, VALUE, partition=partition)
    return bench, AsyncProducer(engine=bench.producer)


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _drained(bench: Bench, *tasks: asyncio.Task[Any]) -> None:
    """Answer until the tasks are done."""
    while not all(task.done() for task in tasks):
        bench.run(2)
        await _turns()


def _all_is_back(bench: Bench) -> None:
    bench.producer.flush(0)
    bench.run(10)
    assert bench.pool.waiter_count == 0
    assert bench.pool.lent_bytes == 0


def test_sends_wait_in_order_for_room(run: Run[None]) -> None:
    """Ten records of a chunk each through a buffer of two, in the order of their sending."""

    async def deliver() -> None:
        bench, producer = _full()
        order: list[int] = []

        async def send(number: int) -> None:
            await producer.send(TOPIC, VALUE, partition=2)
            order.append(number)

        tasks = [asyncio.create_task(send(number)) for number in range(10)]
        await _turns()
        assert order == []
        assert bench.pool.waiter_count == 1
        await _drained(bench, *tasks)
        assert order == list(range(10))
        _all_is_back(bench)

    run(deliver())


def test_one_chunk_lets_many_small_records_in(run: Run[None]) -> None:
    """They do not each take a chunk: one comes free, and two hundred find room in it."""

    async def deliver() -> None:
        bench, producer = _full()
        tasks = [asyncio.create_task(producer.send(TOPIC, b"s", partition=2)) for _ in range(200)]
        await _turns()
        bench.run(2)
        await _turns(20)
        assert all(task.done() for task in tasks)
        assert bench.pool.lent_bytes <= CHUNK
        _all_is_back(bench)

    run(deliver())


def test_a_cancelled_task_sends_nothing_and_delays_no_other(run: Run[None]) -> None:
    """The first, one in the middle and the last give up; the others keep their order."""

    async def deliver() -> None:
        bench, producer = _full()
        order: list[int] = []
        offsets: list[int] = []

        async def send(number: int) -> None:
            delivery = await producer.send(TOPIC, VALUE, partition=2)
            order.append(number)
            offsets.append((await delivery).offset)

        tasks = [asyncio.create_task(send(number)) for number in range(10)]
        await _turns()
        for number in (0, 4, 9):
            tasks[number].cancel()
        await _turns()
        assert bench.pool.waiter_count == 1
        await _drained(bench, *tasks)
        assert order == [1, 2, 3, 5, 6, 7, 8]
        assert [task.cancelled() for task in tasks] == [n in {0, 4, 9} for n in range(10)]
        _all_is_back(bench)
        assert offsets == list(range(7))

    run(deliver())


def test_the_place_in_the_pools_line_is_the_loops(run: Run[None]) -> None:
    """Its first gives up: later waiters in the pool's queue still come later."""

    async def deliver() -> None:
        bench, producer = _full()
        first = asyncio.create_task(producer.send(TOPIC, 2 * VALUE, partition=2))
        second = asyncio.create_task(producer.send(TOPIC, 2 * VALUE, partition=2))
        await _turns()
        behind = MemoryWaiter(2, True, CHUNK)
        bench.pool.add_waiter(behind)
        first.cancel()
        await _turns()
        assert bench.pool.waiter_count == 2
        bench.run(2)
        await _turns()
        assert (second.done(), behind.settled) == (True, False)
        bench.pool.remove_waiter(behind)
        _all_is_back(bench)

    run(deliver())


def test_nobody_left_leaves_the_pools_line(run: Run[None]) -> None:
    """Everyone who waits is cancelled, before and after memory came free for them."""

    async def deliver() -> None:
        for answered in (False, True):
            bench, producer = _full()
            tasks = [
                asyncio.create_task(producer.send(TOPIC, VALUE, partition=2)) for _ in range(5)
            ]
            await _turns()
            if answered:
                bench.run(2)
            for task in tasks:
                task.cancel()
            await _turns()
            assert all(task.cancelled() for task in tasks)
            _all_is_back(bench)

    run(deliver())


def test_no_room_in_time_is_an_error(run: Run[None]) -> None:
    """It names the settings; the next in line waits on. `on_buffer_full` is for threads."""

    async def deliver() -> None:
        bench, producer = _full(max_block_ms=20, on_buffer_full="raise")
        with pytest.raises(BufferTimeout, match=r"16384 more bytes.*max_block_ms=20"):
            await producer.send(TOPIC, VALUE, partition=2)
        patient = asyncio.create_task(producer.send(TOPIC, VALUE, partition=2))
        await _drained(bench, patient)
        assert patient.exception() is None
        _all_is_back(bench)

    run(deliver())


def test_closing_ends_the_wait(run: Run[None]) -> None:
    """Everyone in line is told that the producer is closed."""

    async def deliver() -> None:
        bench, producer = _full()
        tasks = [asyncio.create_task(producer.send(TOPIC, VALUE, partition=2)) for _ in range(99)]
        await _turns()
        bench.producer.close(0)
        await _turns(10)
        for task in tasks:
            with pytest.raises(ClosedError):
                await task
        assert bench.pool.waiter_count == 0

    run(deliver())


def test_a_loop_that_is_closed_leaves_no_memory_behind() -> None:
    """Its place in the pool's line is served, and given up since nobody is there."""
    bench, producer = _full()
    loop = asyncio.new_event_loop()
    task = loop.create_task(producer.send(TOPIC, VALUE, partition=2))
    loop.run_until_complete(_turns())
    loop.close()
    assert bench.pool.waiter_count == 1
    bench.run(10)
    assert (bench.pool.waiter_count, bench.pool.lent_bytes) == (0, 0)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def _standing_still(bench: Bench, producer: AsyncProducer, last_turn: Callable[[], object]) -> Any:
    """A loop that stops in the very turn in which a record is done, with a waiting task."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(producer.send(TOPIC, 2 * VALUE, partition=2))

    async def run() -> None:
        await _turns()
        last_turn()

    loop.run_until_complete(run())
    assert not task.done()
    assert bench.pool.lent_bytes == 2 * CHUNK
    return loop, task


def _goes_on(bench: Bench, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """The loop runs again, and its record is sent."""
    loop.run_until_complete(_drained(bench, task))
    assert task.exception() is None
    _all_is_back(bench)
    loop.close()


def test_a_stopped_loop_is_passed_over() -> None:
    """Memory comes when it is not running: the next in the pool's line has it."""
    bench, producer = _full()
    loop, task = _standing_still(bench, producer, lambda: None)
    behind = MemoryWaiter(2, True, CHUNK)
    bench.pool.add_waiter(behind)
    bench.run(10)
    assert behind.settled
    bench.pool.remove_waiter(behind)
    _goes_on(bench, loop, task)


def test_a_loop_that_stopped_before_it_took_its_memory_loses_it_to_others() -> None:
    """To a thread that waits, which has to look."""
    bench, producer = _full()
    loop, task = _standing_still(bench, producer, lambda: bench.run(2))
    behind = MemoryWaiter(2, True, CHUNK)
    bench.pool.add_waiter(behind)
    assert not behind.settled
    bench.pool.wait_for(behind, 0)
    bench.pool.remove_waiter(behind)
    _goes_on(bench, loop, task)


@pytest.mark.parametrize("who", ["thread", "loop"])
def test_a_waiting_thread_checks_again_whether_a_loop_has_stopped(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second, while nothing comes: what keeps the memory stopped only after that."""
    monkeypatch.setattr(room_line, "LOOK_S", 0.01)
    monkeypatch.setattr(buffer_pool, "LOOK_S", 0.01)
    bench, producer = _full()

    async def send_beside() -> None:
        await AsyncProducer(engine=bench.producer).send(TOPIC, 2 * VALUE, partition=0)

    def wait() -> None:
        if who == "thread":
            bench.producer.send(TOPIC, 2 * VALUE, partition=0)
        else:
            asyncio.run(send_beside())

    waiting = threading.Thread(target=wait)
    loop = asyncio.new_event_loop()
    task = loop.create_task(producer.send(TOPIC, 2 * VALUE, partition=2))

    async def run() -> None:
        await _turns()
        waiting.start()
        while bench.pool.waiter_count < 2:
            await _turns(1)
        bench.run(2)

    loop.run_until_complete(run())
    waiting.join(30)
    assert not waiting.is_alive()
    assert not task.done()
    _goes_on(bench, loop, task)


@pytest.mark.slow
def test_fifty_thousand_tasks_at_a_full_buffer_some_of_them_cancelled(run: Run[set[int]]) -> None:
    """Nothing lost, nothing stuck: every task that is not cancelled gets a result."""
    count = 50_000
    source = random.Random(11)
    accepted: set[int] = set()
    answered: dict[int, int] = {}

    async def one(producer: AsyncProducer, number: int) -> None:
        delivery = await producer.send("orders", b"%06d" % number * 20)
        accepted.add(number)
        answered[number] = (await delivery).offset

    async def deliver(cluster: EmbeddedCluster) -> set[int]:
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers, buffer_memory=128 << 10, linger_ms=0
        ) as producer:
            tasks = [asyncio.create_task(one(producer, number)) for number in range(count)]
            left = set(range(count))
            await _turns(1)  # all have begun; those that found no room wait still
            while left := {number for number in left if not tasks[number].done()}:
                # The first round alone cancels enough, however fast the broker is.
                for number in source.sample(sorted(left), min(len(left), 1_500)):
                    tasks[number].cancel()
                await _turns(20)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert await producer.flush() == 0
            engine = producer._kprod.engine
            assert engine is not None
            pool = engine.pool
            assert (pool.waiter_count, pool.lent_bytes) == (0, 0)
            cancelled = {
                number
                for number, outcome in enumerate(outcomes)
                if isinstance(outcome, asyncio.CancelledError)
            }
            assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
            return cancelled

    with EmbeddedCluster(brokers=1, topics={"orders": 3}) as cluster:
        cancelled = run(deliver(cluster))
        log = [
            (int(record.value[:6]), record.offset)
            for records in cluster.records("orders").values()
            for record in records
            if record.value
        ]
    assert len(cancelled) > 1_000
    assert answered.keys() == set(range(count)) - cancelled
    assert sorted(number for number, _ in log) == sorted(accepted)
    assert answered.items() <= dict(log).items()
