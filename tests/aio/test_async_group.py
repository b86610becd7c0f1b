"""AsyncConsumer as a member of a group: listeners in the loop, commits, steps beside it."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kprod import AsyncConsumer, Producer
from kprod.broker import EmbeddedCluster
from kprod.errors import BrokerError, ClosedError, ConfigError, KprodError
from kprod.interfaces import AsyncRebalanceListener
from kprod.model import OffsetAndMetadata, TopicPartition
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.aio.conftest import Run

ORDERS = [TopicPartition("orders", number) for number in range(4)]
COUNT = 40


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with a topic of four partitions, ten records in each."""
    with EmbeddedCluster(brokers=1, topics={"orders": 4}) as running:
        with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            partitions = [number % 4 for number in range(COUNT)]
            values = [b"%d" % number for number in range(COUNT)]
            producer.send_many("orders", values, partitions=partitions).result(30)
        yield running


def member(cluster: EmbeddedCluster, *topics: str, **settings: Any) -> AsyncConsumer:
    """A member of one group."""
    return AsyncConsumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 10, **settings},
    )


class Listener(AsyncRebalanceListener):
    """Notes what it is told, some of it in a coroutine."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.consumers: set[object] = set()

    async def on_assigned(
        self, consumer: AsyncConsumer, partitions: Sequence[TopicPartition]
    ) -> None:
        """Wait in the loop, and ask the consumer."""
        await asyncio.sleep(0)
        await consumer.committed(partitions)
        self.consumers.add(consumer)
        self.told.append(("assigned", len(partitions)))

    def on_revoked(self, consumer: AsyncConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Run in the loop's thread, too."""
        assert asyncio.get_running_loop().is_running()
        self.consumers.add(consumer)
        self.told.append(("revoked", len(partitions)))


async def read(consumer: AsyncConsumer, seen: list[int], count: int) -> None:
    """Read until this many numbers are seen."""
    while len(seen) < count:
        seen += [int(record.value) for record in await consumer.poll(0.05)]


def test_two_members_share_the_partitions(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Each record is read once; the listener's methods run in the loop, with its consumer."""

    async def share() -> None:
        listener = Listener()
        seen: list[int] = []
        async with member(cluster, heartbeat_interval_ms=100) as first:
            first.subscribe("orders", listener)
            await read(first, seen, COUNT)
            assert sorted(seen) == list(range(COUNT))
            assert first.assignment() == set(ORDERS)
            async with member(cluster, "orders") as second:
                while len(first.assignment()) != 2 or len(second.assignment()) != 2:
                    found = await asyncio.gather(first.poll(0.05), second.poll(0.05))
                    assert not any(found)  # the first one has committed
            assert listener.consumers == {first}
            assert listener.told[:2] == [("assigned", 4), ("revoked", 4)]
            assert first.group_metadata().group_id == "billing"

    run(share())


def test_a_pattern_is_subscribed(run: Run[None], cluster: EmbeddedCluster) -> None:
    """The topics that match are read, and the listener is told in the loop."""

    async def share() -> None:
        listener, seen = Listener(), list[int]()
        async with member(cluster) as consumer:
            consumer.subscribe(listener=listener, pattern="^ord")
            await read(consumer, seen, COUNT)
            assert consumer.subscription() == {"orders"}
            assert listener.told == [("assigned", 4)]

    run(share())


def test_commits_that_nobody_waits_for(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Their callbacks run in the loop, in the order of the commits; stored offsets count."""

    async def work() -> None:
        told: list[tuple[Any, ...]] = []
        loop = asyncio.get_running_loop()

        def note(offsets: Any, error: Any) -> None:
            told.append((offsets[ORDERS[0]].offset, error, asyncio.get_running_loop() is loop))

        async def wait(_offsets: Any, _error: Any) -> None:
            await asyncio.sleep(0)

        async with member(cluster, "orders", auto_offset_store=False) as consumer:
            await read(consumer, [], COUNT)
            consumer.commit_async({ORDERS[0]: 3}, note)
            consumer.store_offsets({ORDERS[0]: 5})
            consumer.commit_async(None, note)
            await consumer.commit()
            while len(told) < 2:
                await consumer.poll(0.01)
            assert told == [(3, None, True), (5, None, True)]
            assert await consumer.committed([ORDERS[0]]) == {ORDERS[0]: OffsetAndMetadata(5)}
            with pytest.raises(TypeError, match="coroutine function"):
                consumer.commit_async(None, wait)
            with pytest.raises(TypeError, match="a callback is a function"):
                consumer.commit_async(None, 7)  # type: ignore[arg-type]  # is tested

    run(work())


def test_a_static_member_leaves_when_it_is_told(run: Run[None], cluster: EmbeddedCluster) -> None:
    """With `close(leave=True)`, so that another one gets its partitions at once."""

    async def work() -> None:
        first = member(cluster, "orders", group_instance_id="a")
        await first.start()
        await read(first, [], COUNT)
        await first.close(leave=True)
        assert not cluster.group("billing").members  # or else only the end of its session helps
        async with member(cluster, "orders", group_instance_id="b") as second:
            while len(second.assignment()) < len(ORDERS):
                await second.poll(0.05)

    run(work())


def test_offsets_are_committed_in_the_order_of_the_calls(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """Positions or given ones; another member begins there."""

    async def work() -> None:
        async with member(cluster, enable_auto_commit=False) as consumer:
            consumer.assign(ORDERS[:1])
            records = await consumer.poll(max_records=3)
            await consumer.commit()
            assert (await consumer.committed(ORDERS[:2])) == {
                ORDERS[0]: OffsetAndMetadata(len(records), "", 0),
                ORDERS[1]: None,
            }
            await asyncio.gather(*(consumer.commit({ORDERS[0]: number}) for number in range(10)))
            found = await consumer.committed(ORDERS[:1])
            assert found == {ORDERS[0]: OffsetAndMetadata(9)}
            cluster.faults.fail_next(ApiKey.OFFSET_COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE)
            with pytest.raises(BrokerError, match="OFFSET_METADATA_TOO_LARGE"):
                await consumer.commit()
            await consumer.unsubscribe()
            await consumer.commit()  # nothing
        async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as alone:
            alone.assign(ORDERS)
            for call in (alone.commit(), alone.committed(ORDERS)):
                with pytest.raises(ConfigError, match="group_id is not set"):
                    await call

    run(work())


def test_a_step_that_waits_for_a_commit_leaves_the_loop_free(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """A rebalance commits before it gives up; a read that is cancelled meanwhile loses nothing."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.005)

    async def work() -> None:
        seen: list[int] = []
        settings = {"max_poll_records": 5, "heartbeat_interval_ms": 100}
        async with member(cluster, "orders", **settings) as consumer:
            await read(consumer, seen, 5)
            cluster.faults.delay(ApiKey.OFFSET_COMMIT, 500)
            ticker = asyncio.create_task(count())
            consumer.pause(*ORDERS)
            cluster.rebalance("billing")
            while cluster.faults.pending():  # until the step has begun to commit
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(consumer.poll(), 0.01)
            before = turns
            await read(consumer, seen, COUNT)
            assert turns - before > 20
            assert sorted(seen) == list(range(COUNT))
            ticker.cancel()

    run(work())


def test_a_listener_that_raises(run: Run[None], cluster: EmbeddedCluster) -> None:
    """Its exception leaves the read; the member is in the group, and reads."""

    class Raising(Listener):
        """Raises once."""

        async def on_assigned(self, consumer: Any, partitions: Any) -> None:
            """Raise at first."""
            if not self.told:
                self.told.append(("raised", 0))
                raise LookupError("no table")
            await super().on_assigned(consumer, partitions)

    async def work() -> None:
        seen: list[int] = []
        async with member(cluster) as consumer:
            consumer.subscribe(["orders"], Raising())
            with pytest.raises(LookupError, match="no table"):
                await consumer.poll()
            await read(consumer, seen, COUNT)
            with pytest.raises(KprodError, match=r"await unsubscribe\(\) first"):
                consumer.assign(ORDERS)
            consumer.progress()
            consumer.enforce_rebalance()

    run(work())


def test_an_exception_in_the_block_commits_no_record_in_hand(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """The record in hand comes again; after an orderly end it does not."""

    async def crash() -> None:
        async with member(cluster) as consumer:
            consumer.assign(ORDERS[:1])
            async for record in consumer:
                if record.offset == 3:
                    raise LookupError("not done")

    async def work() -> None:
        with pytest.raises(LookupError):
            await crash()
        async with member(cluster) as consumer:
            consumer.assign(ORDERS[:1])
            (record,) = await consumer.poll(max_records=1)
            assert record.offset == 3
        async with member(cluster) as consumer:
            consumer.assign(ORDERS[:1])
            (record,) = await consumer.poll(max_records=1)
            assert record.offset == 4

    run(work())


def test_a_close_leaves_another_tasks_records_in_hand(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """They may not be done; and its next read is told of the close, also while that commits."""

    async def work() -> None:
        consumer = member(cluster, "orders")
        await consumer.start()
        is_reading = asyncio.Event()

        async def read_on() -> None:
            while not await consumer.poll(1, 3):
                pass
            is_reading.set()
            await asyncio.sleep(0.1)
            with pytest.raises(ClosedError):
                await consumer.poll()

        task = asyncio.create_task(read_on())
        await is_reading.wait()
        cluster.faults.delay(ApiKey.OFFSET_COMMIT, 500)
        await consumer.close()
        await task
        async with member(cluster) as other:
            found = await other.committed(ORDERS)
            assert all(each is None or each.offset == 0 for each in found.values())

    run(work())


def test_a_listeners_task_that_is_cancelled_before_it_runs_holds_up_nothing(
    cluster: EmbeddedCluster, run: Run[None]
) -> None:
    """As by an application that cancels all tasks of its loop; the read raises."""

    class Unshown(Listener):
        def __repr__(self) -> str:
            raise ZeroDivisionError

    def cancelling(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **more)
        if "LoopListener" in work.__qualname__:
            task.cancel()
        return task

    async def main() -> None:
        async with member(cluster) as consumer:
            consumer.subscribe("orders", listener=Unshown())
            loop = asyncio.get_running_loop()
            loop.set_task_factory(cancelling)
            with pytest.raises(KprodError, match=r"cancelled: .*on_assigned.* was not told of"):
                await consumer.poll(30)
            loop.set_task_factory(None)
            assert len(await consumer.poll(30)) == COUNT

    run(main())


async def cancel_all(spared: "set[asyncio.Task[Any]]") -> None:
    """Cancel all tasks of the loop but these, and wait for their ends."""
    others = asyncio.all_tasks() - spared
    for task in others:
        task.cancel()
    await asyncio.wait(others)


def test_a_step_continues_when_all_tasks_are_cancelled(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """The next read waits for its end, as if the step had been its own, and reads on."""

    async def work() -> None:
        spared = asyncio.all_tasks()
        seen: list[int] = []
        settings = {"max_poll_records": 5, "heartbeat_interval_ms": 100}
        async with member(cluster, "orders", **settings) as consumer:
            await read(consumer, seen, 5)
            cluster.faults.delay(ApiKey.OFFSET_COMMIT, 500)
            consumer.pause(*ORDERS)
            cluster.rebalance("billing")
            reading = asyncio.create_task(consumer.poll())
            while cluster.faults.pending():  # until the step has begun to commit
                await asyncio.wait({reading}, timeout=0.01)
            await cancel_all(spared)
            assert reading.cancelled()
            await read(consumer, seen, COUNT)
            assert sorted(seen) == list(range(COUNT))

    run(work())


def test_a_listener_that_is_cancelled_is_told_of_by_the_next_read(
    run: Run[None], cluster: EmbeddedCluster
) -> None:
    """That read is not cancelled itself; the member has its partitions."""
    is_waiting = asyncio.Event()

    class Slow(Listener):
        async def on_assigned(self, consumer: Any, partitions: Any) -> None:
            """Wait for ever."""
            del consumer, partitions
            is_waiting.set()
            await asyncio.Event().wait()

    async def work() -> None:
        spared = asyncio.all_tasks()
        async with member(cluster) as consumer:
            consumer.subscribe("orders", listener=Slow())
            reading = asyncio.create_task(consumer.poll())
            await is_waiting.wait()
            await cancel_all(spared)
            assert reading.cancelled()
            with pytest.raises(KprodError, match=r"cancelled: .*on_assigned has not ended after"):
                await consumer.poll(30)
            assert len(await consumer.poll(30)) == COUNT

    run(work())
