"""AsyncProducer against the embedded broker: sends, waits that leave the loop free, ends."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kprod import AsyncProducer, Producer
from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    Purged,
    SerializationError,
    UnknownPartition,
    UnknownTopic,
)
from kprod.metrics.recorder import MetricsRecorder
from kprod.model import RecordMetadata
from kprod.network import epoll_selector
from kprod.producer.producer_engine import ProducerEngine
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.aio.conftest import Run


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of three partitions, no auto-creation."""
    config = EmbeddedConfig(auto_create_topics=False)
    with EmbeddedCluster(brokers=1, topics={"orders": 3}, config=config) as running:
        yield running


def _producer(cluster: EmbeddedCluster, **settings: object) -> AsyncProducer:
    return AsyncProducer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def test_awaited_records_are_in_the_log(run: Run[RecordMetadata], cluster: EmbeddedCluster) -> None:
    """`send` gives a delivery, and the delivery where the record is."""

    async def deliver() -> RecordMetadata:
        async with _producer(cluster) as producer:
            delivery = await producer.send(
                "orders",
                b"v",
                key=b"k",
                headers={"h": b"x"},
                partition=1,
                timestamp_ms=1_700_000_000_000,
            )
            return await delivery

    metadata = run(deliver())
    (record,) = cluster.records("orders")[1]
    assert metadata == ("orders", 1, 0, 1_700_000_000_000, 1, 1)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"x"),))


def test_many_deliveries_are_awaited_in_any_order(run: Run[None], cluster: EmbeddedCluster) -> None:
    """More than a batch, awaited from the end; each names its own offset."""

    async def deliver() -> None:
        async with _producer(cluster, batch_size=5_000, linger_ms=0) as producer:
            deliveries = [
                await producer.send("orders", b"%d" % n, partition=0) for n in range(3000)
            ]
            offsets = [(await delivery).offset for delivery in reversed(deliveries)]
            assert offsets == list(range(2999, -1, -1))

    run(deliver())
    assert [r.value for r in cluster.records("orders")[0]] == [b"%d" % n for n in range(3000)]


def test_a_send_is_a_coroutine_like_any_other(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Made a task, gathered, shielded, sent and awaited in one."""

    async def deliver() -> None:
        async with _producer(cluster, linger_ms=0) as producer:
            task = asyncio.create_task(producer.send("orders", b"1", partition=0))
            assert (await (await task)).offset == 0
            both = await asyncio.gather(
                producer.send("orders", b"2", partition=0),
                producer.send("orders", b"3", partition=0),
            )
            assert [(await one).offset for one in both] == [1, 2]
            delivery = await asyncio.shield(producer.send("orders", b"4", partition=0))
            assert (await delivery).offset == 3
            metadata = await producer.send_and_wait("orders", b"5", partition=0, headers={})
            assert metadata.offset == 4

    run(deliver())


def test_one_task_does_not_keep_the_loop(run: Run[None], cluster: EmbeddedCluster) -> None:
    """While a task sends without a pause, others get their turns."""

    async def deliver() -> None:
        turns = 0

        async def live() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with _producer(cluster) as producer:
            await producer.send_and_wait("orders", b"first")
            other = asyncio.create_task(live())
            before = turns
            for _ in range(5_000):
                await producer.send("orders", b"v")
            assert turns - before >= 9
            other.cancel()

    run(deliver())


def test_bad_input_is_rejected_and_nothing_is_sent(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """The awaited `send` raises the same errors as the synchronous one."""

    def fail(value: object) -> bytes:
        raise KeyError(value)

    async def deliver() -> None:
        async with _producer(cluster) as producer:
            bad: list[tuple[type[Exception], dict[str, Any]]] = [
                (TypeError, {"value": 5}),
                (TypeError, {"topic": 5}),
                (TypeError, {"on_delivery": 5}),
                (TypeError, {"headers": 5}),
                (ValueError, {"partition": -1}),
                (ValueError, {"topic": "no such name"}),
                (UnknownPartition, {"partition": 3}),
            ]
            for error, given in bad:
                with pytest.raises(error):
                    await producer.send(**{"topic": "orders", "value": b"v", **given})
        async with _producer(cluster, value_serializer=fail) as producer:
            with pytest.raises(SerializationError, match="value_serializer failed for 'orders'"):
                await producer.send("orders", b"v")

    run(deliver())
    assert not any(cluster.records("orders").values())


def test_a_topic_is_awaited_and_the_loop_runs(run: Run[None], cluster: EmbeddedCluster) -> None:
    """A hundred tasks send to a topic that is made only then, by a task of the same loop."""

    async def deliver() -> None:
        async with _producer(cluster, retry_backoff_ms=5) as producer:
            sends = [asyncio.create_task(producer.send("later", b"v")) for _ in range(100)]
            await producer.send_and_wait("orders", b"v")
            assert not any(task.done() for task in sends)
            cluster.create_topic("later", 2)
            assert {(await (await task)).topic for task in sends} == {"later"}

    run(deliver())
    assert sum(map(len, cluster.records("later").values())) == 100


def test_a_topic_that_does_not_come_is_an_error(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Within `max_block_ms`, with the broker's reason; a task cancelled before leaves no trace."""

    async def deliver() -> None:
        async with _producer(cluster, max_block_ms=1_000, retry_backoff_ms=5) as producer:
            await producer.send_and_wait("orders", b"v")  # the broker responds from here on
            impatient = asyncio.create_task(producer.send("never", b"v"))
            await asyncio.sleep(0)
            impatient.cancel()
            with pytest.raises(UnknownTopic, match=r"within max_block_ms=1000.*UNKNOWN_TOPIC"):
                await producer.send("never", b"v")
            assert impatient.cancelled()
            engine = producer._kprod.engine
            assert engine is not None
            assert len(engine.metadata._waiters) == 0

    run(deliver())


def test_a_partition_that_was_added_is_found(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Newer metadata is awaited once."""

    async def deliver() -> None:
        async with _producer(cluster) as producer:
            await producer.send_and_wait("orders", b"v", partition=2)
            with pytest.raises(UnknownPartition, match="has no partition 3: its last is 2"):
                await producer.send("orders", b"v", partition=3)

    run(deliver())


def test_a_failed_record_raises_when_it_is_awaited(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """Each task that awaits gets an error of its own."""

    async def deliver() -> None:
        async with _producer(cluster, linger_ms=0) as producer:
            await producer.send_and_wait("orders", b"warm", partition=0)
            cluster.faults.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
            delivery = await producer.send("orders", b"bad", partition=0)

            async def caught() -> BrokerError:
                with pytest.raises(BrokerError) as info:
                    await delivery
                return info.value

            first, second = await asyncio.gather(caught(), caught())
            assert first.code == second.code == ErrorCode.INVALID_RECORD
            assert first is not second

    run(deliver())


def test_flush_cuts_linger_and_close_ends(run: Run[None], cluster: EmbeddedCluster) -> None:
    """The loop stays free while both wait; afterwards sends are rejected."""

    async def deliver() -> None:
        producer = _producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
        assert await producer.close() == 0
        producer = _producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
        await producer.start()
        await producer.start()
        delivery = await producer.send("orders", b"1")
        cluster.faults.stall(0)
        assert await producer.flush(0) == 1
        cluster.faults.resume(0)
        assert await producer.flush() == 0
        assert delivery.done()
        last = await producer.send("orders", b"2")
        assert await producer.close() == 0
        assert (await last).serialized_value_size == 1
        for rejected in (producer.send("orders", b"3"), producer.start()):
            with pytest.raises(ClosedError):
                await rejected
        assert await producer.close() == 0

    run(deliver())


def test_purged_records_fail(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Unsent records are dropped, and tasks that await them are told."""

    async def deliver() -> None:
        async with _producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            first = await producer.send("orders", b"first")
            await producer.flush()
            assert (await first).offset == 0
            delivery = await producer.send("orders", b"1")
            waiting = asyncio.ensure_future(delivery)
            assert await producer.purge() == 1
            with pytest.raises(Purged):
                await waiting

    run(deliver())


@pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)
def test_lone_records_leave_in_the_loops_thread(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Each is written by its task, also by one that is cancelled then: it is delivered once."""

    async def deliver() -> None:
        async with _producer(cluster, linger_ms=0) as producer:
            engine = producer._kprod.engine
            assert engine is not None
            taken_count = cancelled_count = 0
            for number in range(60):
                lock = engine.path.direct_path._sender_lock
                while lock.locked():  # noqa: ASYNC110 - nobody is told that the sender sleeps
                    await asyncio.sleep(0.001)
                before = _requests(engine), _turns(engine)
                sent = producer.send_and_wait("orders", b"%d" % number, partition=0)
                task = asyncio.create_task(sent)
                await asyncio.sleep(0)  # the task sends, and waits
                # The sender has not woken, and still there is a request more.
                taken_count += (_requests(engine) - 1, _turns(engine)) == before
                if number % 2:
                    task.cancel()
                await asyncio.wait([task])
                cancelled_count += task.cancelled()
                assert await producer.flush() == 0
            assert taken_count
            assert cancelled_count

    run(deliver())
    assert [r.value for r in cluster.records("orders")[0]] == [b"%d" % n for n in range(60)]


def _requests(engine: ProducerEngine) -> int:
    assert isinstance(engine.recorder, MetricsRecorder)
    return engine.recorder.producer.produce_requests


def _turns(engine: ProducerEngine) -> int:
    assert isinstance(engine.recorder, MetricsRecorder)
    return engine.recorder.producer.selects


def test_an_engine_is_shared_by_loops_and_threads(cluster: EmbeddedCluster) -> None:
    """Three loops in threads of their own, two plain threads; another loop closes nothing."""

    async def deliver(thread: int) -> None:
        async with AsyncProducer(engine=engine) as producer:
            for number in range(500):
                delivery = await producer.send("orders", b"%d:%d" % (thread, number), partition=0)
                if number % 50 == 0:
                    await delivery
        with pytest.raises(ClosedError, match="not open"):
            await producer.send("orders", b"late")

    def put(thread: int) -> None:
        for number in range(500):
            engine.send("orders", b"%d:%d" % (thread, number), partition=0)

    with Producer(bootstrap_servers=cluster.bootstrap_servers, buffer_memory=65_536) as engine:
        threads = [threading.Thread(target=lambda n=n: asyncio.run(deliver(n))) for n in range(3)]
        threads += [threading.Thread(target=put, args=(n,)) for n in range(3, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.flush() == 0
        assert engine.send("orders", b"open").result().offset >= 0
    sent = [tuple(map(int, r.value.split(b":"))) for r in cluster.records("orders")[0] if r.value]
    for number_of_thread in range(5):
        assert [number for who, number in sent if who == number_of_thread] == list(range(500))


def test_settings_are_checked_at_once(cluster: EmbeddedCluster) -> None:
    """Not at the start; and an engine comes with its own."""
    with pytest.raises(ConfigError, match="linger"):
        AsyncProducer(bootstrap_servers="localhost:1", linger_ms=-1)
    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers) as engine,
        pytest.raises(TypeError, match="linger_ms"),
    ):
        AsyncProducer(engine=engine, linger_ms=5)


def test_a_producer_that_is_not_started_says_so(run: Run[None]) -> None:
    """In `send` as in `flush`."""

    async def deliver() -> None:
        producer = AsyncProducer(bootstrap_servers="localhost:1")
        for call in (producer.send("orders", b"v"), producer.flush(), producer.purge()):
            with pytest.raises(ClosedError, match="not open"):
                await call

    run(deliver())
