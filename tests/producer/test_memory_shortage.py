"""While any send waits for memory, every batch that has records is sent without linger."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from kprod import AsyncProducer
from kprod._core.memory.chunk_pool import ChunkChain
from kprod._core.memory.memory_waiter import MemoryWaiter
from kprod.clock import SystemClock
from kprod.producer.batch import ProducerBatch
from kprod.producer.partition_queue import PartitionQueue
from tests.producer.bench import TOPIC, Bench

CHUNK = 16_384
VALUE = b"v" * 12_000  # one large chunk
LINGER_MS = 60_000
WAIT_S = 30.0  # ends a broken test, never its rhythm


def _full(chunks: int, partitions: int = 4) -> Bench:
    """A buffer of `count` chunks, each used by a record of another partition, none sent."""
    bench = Bench(
        (0,) * partitions,
        buffer_memory=chunks * CHUNK,
        linger_ms=LINGER_MS,
        max_block_ms=LINGER_MS,
    )
    for partition in range(chunks):
        bench.producer.send(TOPIC, VALUE, partition=partition)
    bench.run(2, 0)  # the producer id
    assert bench.client.in_flight == []
    return bench


def _until(holds: Callable[[], bool]) -> None:
    clock, pause = SystemClock(), threading.Event()
    ends_ms = clock.now_ms() + WAIT_S * 1_000
    while not holds():
        assert clock.now_ms() < ends_ms
        pause.wait(0.001)


def _until_waiting(bench: Bench, count: int) -> None:
    _until(lambda: bench.pool.waiter_count == count)


def _in_flight(bench: Bench) -> set[int]:
    """The partitions with a batch in flight."""
    return {partition for carried in bench.client.in_flight for partition in carried.batches}


def _answer(bench: Bench, *partitions: int) -> None:
    """Answer the requests that carry one of these alone."""
    for carried in list(bench.client.in_flight):
        if set(carried.batches) <= set(partitions):
            bench.answer(carried)


def _send_one_by_one(bench: Bench) -> None:
    """Drain the ready batches, in a request for each partition."""
    limit = bench.producer._kprod.sender._request_bytes_max
    bench.producer._kprod.sender._request_bytes_max = 1
    bench.turn()
    bench.turn()
    bench.producer._kprod.sender._request_bytes_max = limit


def test_a_batch_begun_while_a_send_waits_does_not_linger() -> None:
    """Two threads wait; the first gets memory, and the second its, without a linger between."""
    bench = _full(2)
    sent: list[int] = []

    def send(partition: int) -> None:
        bench.producer.send(TOPIC, VALUE, partition=partition)
        sent.append(partition)

    threads = [threading.Thread(target=send, args=(partition,)) for partition in (2, 3)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        _until_waiting(bench, count)
    _send_one_by_one(bench)
    assert _in_flight(bench) == {0, 1}
    _answer(bench, 0)
    bench.turn()
    _until(lambda: sent == [2])
    bench.turn()
    was_sent = 2 in _in_flight(bench)
    for carried in list(bench.client.in_flight):
        bench.answer(carried)
    bench.run(4, 0)
    for thread in threads:
        thread.join(WAIT_S)
    bench.producer.close(0)
    assert was_sent, "a batch lingered while a send waited for its memory"
    assert sent == [2, 3]


def test_nothing_is_hurried_once_nobody_waits() -> None:
    """With the last wait the shortage is over: batches linger again, and the sender sleeps."""
    bench = _full(2)
    waiter = MemoryWaiter(1, True, CHUNK)
    bench.pool.start_waiting(waiter)
    _send_one_by_one(bench)
    bench.pool.remove_waiter(waiter)
    for carried in list(bench.client.in_flight):
        bench.answer(carried)
    bench.turn()
    bench.producer.send(TOPIC, b"lingers", partition=2)
    bench.turn()
    bench.turn()
    assert bench.client.in_flight == []
    assert bench.client.sleep_ms > 0
    bench.producer.close(0)


def test_a_shortage_does_not_make_the_sender_spin() -> None:
    """Batches that cannot be sent wait for their event: the sender sleeps although a send waits."""
    bench = _full(2)
    bench.client.room = 0
    waiter = MemoryWaiter(1, True, CHUNK)
    bench.pool.start_waiting(waiter)
    bench.turn()
    bench.turn()
    assert bench.pool.waiter_count == 1
    assert bench.client.sleep_ms > 0
    bench.pool.remove_waiter(waiter)
    bench.producer.close(0)


@pytest.mark.parametrize("method", ["send", "send_many"])
def test_an_empty_batch_gives_its_memory_to_a_send_that_waits(method: str) -> None:
    """It was opened for a record that went to another sticky partition meanwhile."""
    bench = _full(2)
    bench.lead(0, -1, 0, 0)  # the batch of partition 1 stays open, with room for a small record
    producer, head = bench.producer, bench.head
    head.sticky = 2
    make_batch = bench.accumulator.make_batch

    def make_and_roll(queue: PartitionQueue, chain: ChunkChain) -> ProducerBatch:
        batch = make_batch(queue, chain)
        head.sticky = 1  # as the sender does when it closes the sticky batch
        return batch

    producer._kprod.support.make_batch = make_and_roll  # type: ignore[method-assign]
    value = VALUE[:3_000] if method == "send" else [VALUE[:3_000]]
    thread = threading.Thread(target=getattr(producer, method), args=(TOPIC, value))
    thread.start()
    _until_waiting(bench, 1)
    waiter = MemoryWaiter(1, True, CHUNK)
    bench.pool.add_waiter(waiter)
    bench.turn()
    bench.turn()
    _answer(bench, 0)
    bench.turn()
    thread.join(WAIT_S)
    assert [len(queue.batches) for queue in head.queues][:2] == [0, 1]
    assert head.queues[1].batches[0].record_count == 2
    bench.turn()
    bench.turn()
    was_settled = waiter.settled
    bench.pool.remove_waiter(waiter)
    producer.close(0)
    assert was_settled, "an empty batch kept memory that a send waits for"


def _asyncio_full() -> tuple[Bench, AsyncProducer]:
    bench = _full(2)
    return bench, AsyncProducer(engine=bench.producer)


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_in_asyncio_a_batch_does_not_linger_while_a_thread_waits() -> None:
    """The loop's send gets memory first; a thread waits for what its batch holds."""

    async def deliver() -> bool:
        bench, producer = _asyncio_full()
        task = asyncio.create_task(producer.send(TOPIC, VALUE, partition=2))
        await _turns()
        behind = MemoryWaiter(1, True, CHUNK)
        bench.pool.start_waiting(behind)
        _send_one_by_one(bench)
        _answer(bench, 0)
        bench.turn()
        await _turns()
        assert task.done()
        assert not behind.settled
        bench.turn()
        was_sent = 2 in _in_flight(bench)
        bench.pool.remove_waiter(behind)
        bench.producer.close(0)
        return was_sent

    assert asyncio.run(deliver()), "a batch lingered while a send waited for its memory"


def test_a_thread_s_batch_does_not_linger_while_a_loop_waits() -> None:
    """A thread's send gets memory first; an event loop's sends wait for what its batch holds."""

    async def deliver() -> bool:
        bench, producer = _asyncio_full()
        thread = threading.Thread(
            target=bench.producer.send, args=(TOPIC, VALUE), kwargs={"partition": 2}
        )
        thread.start()
        _until_waiting(bench, 1)
        task = asyncio.create_task(producer.send(TOPIC, VALUE, partition=3))
        await _turns()
        assert bench.pool.waiter_count == 2
        _send_one_by_one(bench)
        _answer(bench, 0)
        bench.turn()
        thread.join(WAIT_S)
        await _turns()
        assert not task.done()
        bench.turn()
        was_sent = 2 in _in_flight(bench)
        _answer(bench, 0, 1, 2)
        bench.turn()
        await _turns()
        assert task.done() or not was_sent
        task.cancel()
        await _turns()
        bench.producer.close(0)
        return was_sent

    assert asyncio.run(deliver()), "a batch lingered while a send waited for its memory"
