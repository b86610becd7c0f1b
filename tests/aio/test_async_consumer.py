"""AsyncConsumer against the embedded broker: reads, cancellations that take nothing, ends."""

import asyncio
import contextlib
import gc
import pickle
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kprod import AsyncConsumer, Producer
from kprod.aio.async_positions import engine_of_async
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.errors import (
    ClosedError,
    ConcurrentPoll,
    ConfigError,
    DeserializationFailed,
    KprodError,
    NoOffset,
    UnknownPartition,
    UnknownTopic,
)
from kprod.model import TopicPartition
from tests.aio.conftest import Run
from tests.consumer.signalled_reading import SignalledReading
from tests.interruptions import Interrupted

ORDERS = TopicPartition("orders", 0)
COUNT = 20
PAUSE_S = 0.01
TURNS_MAX = 8  # more turns of the loop than a read of present records takes


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with an empty topic of one partition."""
    config = EmbeddedConfig(auto_create_topics=False)
    with EmbeddedCluster(brokers=1, topics={"orders": 1}, config=config) as running:
        yield running


def send(cluster: EmbeddedCluster, first: int = 0, count: int = COUNT) -> None:
    """Append records with numbers as values."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many("orders", [b"%d" % n for n in range(first, first + count)]).result(30)


def opened(cluster: EmbeddedCluster, *topics: str, **settings: Any) -> AsyncConsumer:
    """A consumer that begins at the beginning."""
    settings = {"auto_offset_reset": "earliest", **settings}
    return AsyncConsumer(
        *(topics or ("orders",)), bootstrap_servers=cluster.bootstrap_servers, **settings
    )


def numbers(records: list[Any]) -> list[int]:
    """The numbers of records."""
    return [int(record.value) for record in records]


def block_until_fetched(consumer: AsyncConsumer) -> None:
    """Block the loop until the I/O thread has records for the next read."""
    hand_over = engine_of_async(consumer).engine.parts.hand_over
    while not hand_over.has_work():
        threading.Event().wait(PAUSE_S)


def test_records_are_polled_and_iterated(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Lists, records one by one, and what `break` has left."""
    send(cluster)

    async def read() -> None:
        async with opened(cluster) as consumer:
            assert numbers(await consumer.poll(max_records=5)) == [0, 1, 2, 3, 4]
            seen = []
            async for record in consumer:
                seen.append(int(record.value))
                if len(seen) == 5:
                    break
            assert seen == [5, 6, 7, 8, 9]
            assert await consumer.position(ORDERS) == 10
            assert numbers(await consumer.poll()) == list(range(10, COUNT))
            assert await consumer.poll(0) == []
            assert await consumer.poll(0.05) == []

    run(read())


def test_columns(run: Run[None], cluster: EmbeddedCluster) -> None:
    """As the synchronous consumer gives them; none in time is a batch without rows."""
    send(cluster)

    async def read() -> None:
        async with opened(cluster) as consumer:
            batch = await consumer.poll_arrow(max_rows=5, leader_epoch=True)
            assert batch.column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
            assert (await consumer.poll_arrow()).num_rows == COUNT - 5
            empty = await consumer.poll_arrow(0.01)
            assert (empty.num_rows, "value" in empty.schema.names) == (0, True)
            with pytest.raises(ValueError, match="max_rows"):
                await consumer.poll_arrow(max_rows=0)

    run(read())


def test_positions_and_questions(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Each method of the synchronous consumer, without blocking."""
    send(cluster)

    async def read() -> None:
        async with opened(cluster, fetch_max_wait_ms=10) as consumer:
            assert consumer.subscription() == {"orders"}
            await consumer.unsubscribe()
            consumer.assign([ORDERS])
            assert consumer.assignment() == {ORDERS}
            assert await consumer.position(ORDERS) == 0
            consumer.seek(ORDERS, 7)
            assert numbers(await consumer.poll(max_records=1)) == [7]
            assert consumer.lag(ORDERS) == COUNT - 8
            consumer.seek_to_end()
            assert await consumer.position(ORDERS) == COUNT
            consumer.seek_to_beginning(ORDERS)
            consumer.pause(ORDERS)
            assert consumer.paused() == {ORDERS}
            assert await consumer.poll(0.05) == []
            consumer.resume(ORDERS)
            assert numbers(await consumer.poll()) == list(range(COUNT))
            assert await consumer.beginning_offsets([ORDERS]) == {ORDERS: 0}
            assert await consumer.end_offsets(iter([ORDERS])) == {ORDERS: COUNT}
            (found,) = (await consumer.offsets_for_times({ORDERS: 0})).values()
            assert found is not None
            assert found.offset == 0
            assert await consumer.partitions_for("orders") == [ORDERS]
            consumer.subscribe("orders")
            assert consumer.metrics()["consumer-fetch-manager-metrics"]
            with pytest.raises(UnknownTopic):
                await consumer.partitions_for("nope")
            with pytest.raises(KprodError, match="not assigned"):
                await consumer.position(("other", 0))

    run(read())


@pytest.mark.parametrize("turns", range(TURNS_MAX))
def test_a_cancelled_poll_of_present_records_has_taken_nothing(
    run: Run[None], cluster: EmbeddedCluster, turns: int
) -> None:
    """Cancelled after each turn of the loop: it has ended with the records, or they remain."""
    send(cluster)

    async def read() -> None:
        async with opened(cluster) as consumer:
            first = numbers(await consumer.poll(max_records=1))
            task = asyncio.create_task(consumer.poll(max_records=5))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                first += numbers(await task)
            rest = numbers(await consumer.poll())
            assert first + rest == list(range(COUNT))

    run(read())


@pytest.mark.parametrize("turns", range(3))
def test_a_cancelled_wait_has_taken_nothing(
    run: Run[None], cluster: EmbeddedCluster, turns: int
) -> None:
    """Cancelled while it waits, and when the records have arrived but the task has not run yet."""

    async def read() -> None:
        async with opened(cluster) as consumer:
            consumer.assign([ORDERS])
            waiting = asyncio.create_task(consumer.poll())
            for _ in range(TURNS_MAX):
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            arriving = asyncio.create_task(consumer.poll())
            for _ in range(TURNS_MAX):
                await asyncio.sleep(0)
            send(cluster)
            block_until_fetched(consumer)
            for _ in range(turns):
                await asyncio.sleep(0)
            arriving.cancel()
            first: list[int] = []
            with contextlib.suppress(asyncio.CancelledError):
                first = numbers(await arriving)
            while len(first) < COUNT:
                first += numbers(await consumer.poll())
            assert first == list(range(COUNT))

    run(read())


@pytest.mark.parametrize("turns", range(TURNS_MAX))
def test_a_cancelled_iteration_goes_on_in_another(
    run: Run[None], cluster: EmbeddedCluster, turns: int
) -> None:
    """Inside the body, and inside the step: each record is seen once, in order."""
    send(cluster)
    seen: list[int] = []

    async def iterate(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            seen.append(int(record.value))
            if len(seen) == COUNT:
                return
            await asyncio.sleep(0)

    async def read() -> None:
        async with opened(cluster, max_poll_records=3) as consumer:
            consumer.assign([ORDERS])
            block_until_fetched(consumer)
            task = asyncio.create_task(iterate(consumer))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await iterate(consumer)

    run(read())
    assert seen == list(range(COUNT))


def test_a_timeout_of_asyncio_takes_nothing(run: Run[None], cluster: EmbeddedCluster) -> None:
    """`wait_for` cancels the read."""

    async def read() -> None:
        async with opened(cluster) as consumer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(), 0.01)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(aiter(consumer)), 0.01)
            send(cluster)
            assert numbers(await consumer.poll(max_records=COUNT))[0] == 0

    run(read())


@pytest.mark.parametrize("read", ["poll", "poll_arrow"])
def test_a_signal_handler_s_exception_takes_nothing(
    run: Run[None], cluster: EmbeddedCluster, read: str
) -> None:
    """It may come when the compiled part of a read has returned; the next read has the records."""
    send(cluster)

    async def interrupt() -> None:
        async with opened(cluster) as consumer:
            engine = engine_of_async(consumer).engine
            reading = engine.reading
            assert numbers(await consumer.poll(10, max_records=5)) == [0, 1, 2, 3, 4]
            engine.reading = SignalledReading(reading, lambda: None)  # type: ignore[assignment]
            with pytest.raises(Interrupted):
                await getattr(consumer, read)(10)
            engine.reading = reading
            assert numbers(await consumer.poll(10)) == list(range(5, COUNT))

    run(interrupt())


def test_an_exception_at_the_start_of_a_read_leaves_no_reader(
    run: Run[None], cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler's; otherwise every later read would find another task reading."""
    send(cluster)

    def interrupt(_: object) -> None:
        raise Interrupted

    async def read() -> None:
        async with opened(cluster) as consumer:
            with monkeypatch.context() as patch:
                patch.setattr("kprod.aio.async_reading.weakref.ref", interrupt)
                with pytest.raises(Interrupted):
                    await consumer.poll(10)
            assert numbers(await consumer.poll(10))[0] == 0

    run(read())


def test_one_task_at_a_time_reads(run: Run[None], cluster: EmbeddedCluster) -> None:
    """A second one gets an error, and takes nothing; the first continues."""

    async def read() -> None:
        async with opened(cluster) as consumer:
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentPoll, match="by another task"):
                await consumer.poll(0)
            send(cluster)
            first = numbers(await waiting)
            seen: list[int] = []
            while len(first) < COUNT:
                first += numbers(await consumer.poll())
            send(cluster, COUNT)
            async for record in consumer:
                seen.append(int(record.value))
                if len(seen) == COUNT:
                    break
                with pytest.raises(ConcurrentPoll, match="another task iterates"):
                    await asyncio.create_task(consumer.poll(0))
            assert seen == list(range(COUNT, 2 * COUNT))

    run(read())


def test_a_loop_that_was_left_belongs_to_no_task(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Another task reads on at once after a `break`, also while the first task lives."""
    send(cluster)
    seen: list[int] = []

    async def some(consumer: AsyncConsumer, left: asyncio.Event) -> None:
        async for record in consumer:
            seen.append(int(record.value))
            if len(seen) == 3:
                break
        left.set()
        await asyncio.sleep(3_600)

    async def read() -> None:
        async with opened(cluster) as consumer:
            left = asyncio.Event()
            task = asyncio.create_task(some(consumer, left))
            await left.wait()
            assert seen + numbers(await consumer.poll()) == list(range(COUNT))
            task.cancel()

    run(read())


def test_reading_leaves_the_loop_free(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Another task runs during a wait, and during an iteration that always finds records."""
    send(cluster, count=1_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read() -> None:
        async with opened(cluster, max_poll_records=10) as consumer:
            consumer.assign([ORDERS])
            block_until_fetched(consumer)
            task = asyncio.create_task(count())
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 1_000:
                    break
            assert turns > 50
            before = turns
            assert await consumer.poll(0.05) == []
            assert turns > before
            task.cancel()

    run(read())


def test_a_blocked_loop_does_not_stop_fetching(run: Run[None], cluster: EmbeddedCluster) -> None:
    """The I/O thread fetches; the records are there when the loop continues."""

    async def read() -> None:
        async with opened(cluster) as consumer:
            consumer.assign([ORDERS])
            assert await consumer.poll(0.01) == []
            send(cluster)
            block_until_fetched(consumer)
            assert numbers(await consumer.poll(0))[0] == 0

    run(read())


def test_loops_take_turns(cluster: EmbeddedCluster) -> None:
    """A loop that was closed in the middle of a read does not hold the consumer."""
    send(cluster)
    consumer = opened(cluster)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(consumer.start())
    first = loop.run_until_complete(consumer.poll(max_records=5))
    while len(first) < COUNT:
        first += loop.run_until_complete(consumer.poll())
    task = loop.create_task(consumer.poll())
    for _ in range(TURNS_MAX):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    send(cluster, COUNT)

    async def go_on() -> list[Any]:
        async with consumer:
            return await consumer.poll(max_records=3)

    assert numbers(asyncio.run(go_on())) == [COUNT, COUNT + 1, COUNT + 2]
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant
    del task
    gc.collect()


def test_a_deserializer_that_raises(run: Run[None], cluster: EmbeddedCluster) -> None:
    """The record stays next until it is skipped; other exceptions of records lose nothing."""
    send(cluster)

    def convert(value: bytes | None) -> int:
        number = int(value or b"")
        if number == 3:
            raise ValueError("three")
        return number

    async def read() -> None:
        async with opened(cluster, value_deserializer=convert) as consumer:
            values = [record.value for record in await consumer.poll()]
            assert values == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(DeserializationFailed) as failed:
                    await consumer.poll()
            consumer.skip(failed.value.record)
            async for record in consumer:
                values.append(record.value)
                if record.value == COUNT - 1:
                    break
            assert values == [0, 1, 2, *range(4, COUNT)]

    run(read())


def test_problems_are_told_at_the_deadline(run: Run[None], cluster: EmbeddedCluster) -> None:
    """A partition that is not there, and an unknown position; and nothing to read at once."""

    async def read() -> None:
        async with opened(cluster) as consumer:
            consumer.assign([("orders", 7)])
            for timeout in (None, 0.05):  # as soon as it is known, and then at the deadline
                with pytest.raises(UnknownPartition, match="not 7"):
                    await consumer.poll(timeout)
            await consumer.unsubscribe()
            with pytest.raises(KprodError, match="nothing to read"):
                await consumer.poll()
        async with opened(cluster, auto_offset_reset="none") as consumer:
            with pytest.raises(NoOffset):
                await consumer.poll()

    run(read())


def test_an_iteration_may_have_an_end(run: Run[list[int]], cluster: EmbeddedCluster) -> None:
    """`consumer_timeout_ms` without a record."""
    send(cluster)

    async def read() -> list[int]:
        async with opened(cluster, consumer_timeout_ms=300) as consumer:
            return [int(record.value) async for record in consumer]

    assert run(read()) == list(range(COUNT))


def test_close_ends_a_read(run: Run[None], cluster: EmbeddedCluster) -> None:
    """It raises in the waiting task; closing is repeatable, and may be cancelled."""

    async def read() -> None:
        consumer = opened(cluster)
        await consumer.start()
        await consumer.start()
        waiting = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(ClosedError):
            await waiting
        with contextlib.suppress(asyncio.CancelledError):
            await closing
        await consumer.close()
        await consumer.close()
        for call in (consumer.poll(), consumer.start(), consumer.position(ORDERS)):
            with pytest.raises(ClosedError):
                await call
        with pytest.raises(ClosedError):
            consumer.assign([ORDERS])

    run(read())


def test_before_the_start(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Settings are checked; nothing else is possible."""
    with pytest.raises(ConfigError, match="fetch_max"):
        AsyncConsumer("orders", bootstrap_servers="h:1", fetch_max=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="topic name"):
        opened(cluster, "x y")
    consumer = opened(cluster, client_id="reader")
    assert (consumer.client_id, consumer.metrics()) == ("reader", {})
    assert repr(consumer).startswith("<AsyncConsumer 'reader', not started, bootstrap_servers=")

    async def early() -> None:
        with pytest.raises(ClosedError, match="not started"):
            await consumer.poll()
        with pytest.raises(ClosedError, match="not started"):
            consumer.seek(ORDERS, 0)
        await consumer.close()
        with pytest.raises(ClosedError, match="closed; make another"):
            await consumer.start()

    run(early())
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(consumer)


def test_a_subclass_may_use_the_engine_s_names(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Only `_kprod` is taken."""
    send(cluster)

    class Mine(AsyncConsumer):
        """An application's consumer."""

        engine = reading = consumer = start_lock = _reading = _consumer = "eu-west"

        async def poll(self, *arguments: Any, **more: Any) -> list[Any]:
            """Return at most two."""
            return (await super().poll(*arguments, **more))[:2]

    async def read() -> None:
        settings = {"bootstrap_servers": cluster.bootstrap_servers}
        async with Mine("orders", settings=settings, auto_offset_reset="earliest") as consumer:
            assert numbers(await consumer.poll()) == [0, 1]
            consumer.seek_to_beginning()
            async for record in consumer:
                assert record.value == b"0"
                break

    run(read())


def test_one_that_was_not_closed_is_told(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Its thread ends, and there is one warning."""

    async def forget() -> None:
        consumer = opened(cluster, client_id="lost")
        await consumer.start()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            del consumer
            gc.collect()
        (warning,) = told
        assert "'lost'" in str(warning.message)
        assert warning.category is ResourceWarning

    run(forget())
    while any("lost" in thread.name for thread in threading.enumerate()):
        threading.Event().wait(PAUSE_S)
