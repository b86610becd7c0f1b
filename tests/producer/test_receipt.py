"""The contents of a receipt while records are pending, and after splits, errors and forks."""

import asyncio
import os
import pickle
import random
import threading
from collections.abc import Iterator

import pytest

from kprod.errors import KprodError, KprodTimeout, Persistence, ProducerForked, RecordsFailed
from kprod.model import RecordMetadata
from kprod.producer.receipt import OffsetRange, PartitionOffsets, SendReceipt
from tests.producer.bench import TOPIC, Bench

MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87


def took(count: int, first: int, last: int) -> PartitionOffsets:
    """The response of a partition about one range."""
    return PartitionOffsets(count, (OffsetRange(first, last),))


def test_it_is_done_with_its_last_batch() -> None:
    """Not before, though some offsets are known earlier."""
    bench = Bench(linger_ms=0)
    receipt = bench.producer.send_many(TOPIC, [b"a", b"b"], partitions=[0, 2])
    bench.turn()
    bench.turn()
    first, second = bench.client.in_flight
    bench.answer(first)
    bench.turn()
    assert not receipt.done()
    assert len(receipt.delivered()) == 1
    assert "2 records, pending, 0 failed" in repr(receipt)
    with pytest.raises(KprodTimeout, match="not all of 2 records for 'orders' settled within 0"):
        receipt.result(0)
    bench.answer(second)
    bench.turn()
    assert receipt.done()
    assert receipt.exception(0) is None
    assert sum(part.count for part in receipt.result().values()) == 2


def test_ranges_of_neighbouring_batches_are_joined() -> None:
    """So that they cost nothing; what others put between is a border."""
    bench = Bench(batch_size=1000)
    values = [b"x" * 200] * 20
    receipt = bench.producer.send_many(TOPIC, values, partitions=[0] * 20)
    bench.run()
    assert receipt.result(0) == {0: took(20, 0, 19)}
    receipt = bench.producer.send_many(TOPIC, values[:4], partitions=[0] * 4)
    bench.partitions[0].log += [b"another client's"] * 5
    bench.run()
    assert receipt.result(0) == {0: took(4, 25, 28)}


def test_records_of_others_in_the_same_batch_are_not_counted() -> None:
    """The range spans them, the count does not."""
    bench = Bench()
    first = bench.producer.send_many(TOPIC, [b"1", b"2"], partitions=[0, 0])
    bench.producer.send(TOPIC, b"s", partition=0)
    second = bench.producer.send_many(TOPIC, [b"3"], partitions=[0])
    bench.run()
    assert first.result(0) == {0: took(2, 0, 1)}
    assert second.result(0) == {0: took(1, 3, 3)}


def test_parts_of_a_split_batch_answer_for_their_records() -> None:
    """A batch too large for the broker: each part has its own offsets, and its own failure."""
    bench = Bench(linger_ms=0)
    rng = random.Random(5)
    values = [b"%03d" % n + b"x" * rng.randrange(80) for n in range(120)]
    mine = bench.producer.send_many(TOPIC, values[:50], partitions=[0] * 50)
    theirs = bench.producer.send_many(TOPIC, values[50:], partitions=[0] * 70)
    bench.turn()
    bench.turn()
    (whole,) = bench.client.in_flight
    bench.reject(whole, MESSAGE_TOO_LARGE)
    bench.turn()
    bench.turn(200)
    parts = 0
    while bench.client.in_flight:
        (carried,) = bench.client.in_flight
        parts += 1
        if parts == 1:
            bench.answer(carried)
        else:
            bench.reject(carried, INVALID_RECORD)
        bench.turn()
        bench.turn(200)
    assert parts > 1
    assert mine.done()
    assert theirs.done()
    failed = [f.index for f in mine.failures()] + [50 + f.index for f in theirs.failures()]
    lost = [values.index(value) for value in values if value not in bench.partitions[0].log]
    assert sorted(failed) == lost
    assert 0 < len(lost) < 120
    delivered = sum(r.delivered()[0].count for r in (mine, theirs) if r.delivered())
    assert delivered == 120 - len(lost)


def test_a_failure_says_what_its_records_went_through() -> None:
    """The error names the first record, its cause, and whether any may be in the log."""
    bench = Bench(linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=900)
    receipt = bench.producer.send_many(TOPIC, [b"a", b"b", b"c"], partitions=[1, 1, 1])
    bench.turn()
    bench.turn()
    for _ in range(30):
        bench.turn(100)
    error = receipt.exception(0)
    assert isinstance(error, RecordsFailed)
    assert error.failed_count == 3
    assert error.persistence is Persistence.POSSIBLY_PERSISTED
    assert "3 of 3 records for 'orders' failed" in str(error)
    assert "index 0: DeliveryTimeout" in str(error)
    assert error.__cause__ is receipt.failures()[0].error
    with pytest.raises(RecordsFailed):
        receipt.result(0)
    assert receipt.delivered() == {}


def test_callbacks_run_once_all_is_settled() -> None:
    """After the delivery callbacks of the last batch; what they raise stops nothing."""
    bench = Bench()
    told: list[object] = []
    receipt = bench.producer.send_many(
        TOPIC, [b"a", b"b"], on_delivery=lambda metadata, _: told.append(metadata)
    )

    def fail(_: SendReceipt) -> None:
        raise RuntimeError

    receipt.add_done_callback(fail)
    receipt.add_done_callback(told.append)
    bench.run()
    assert len(told) == 3
    assert told[2] is receipt
    receipt.add_done_callback(told.append)
    assert told[3] is receipt


def test_callbacks_of_the_receipt_come_after_those_of_every_batch() -> None:
    """Also when the last batch is settled inside another one's delivery callback."""
    bench = Bench(linger_ms=0)
    told: list[object] = []

    def tell(metadata: RecordMetadata | None, _: KprodError | None) -> None:
        if metadata is not None:
            bench.producer.purge()
        told.append(metadata)

    receipt = bench.producer.send_many(TOPIC, [b"a", b"b"], partitions=[0, 1], on_delivery=tell)
    receipt.add_done_callback(told.append)
    bench.clock.advance(1)
    bench.lead(0, -1, 0)  # the second has no leader, and so is not sent
    bench.run()
    assert receipt.failed_count == 1
    assert len(told) == 3
    assert told[2] is receipt


def test_a_call_that_ends_during_callbacks_waits_for_them() -> None:
    """Its last record is settled already, and the callback of that record still runs."""
    bench = Bench(linger_ms=0)
    told: list[object] = []
    in_callback, may_return = threading.Event(), threading.Event()

    def tell(*_: object) -> None:
        in_callback.set()
        may_return.wait(30)
        told.append("record")

    sender = threading.Thread(target=bench.run)

    def values() -> Iterator[bytes]:
        yield b"a"
        sender.start()
        assert in_callback.wait(30)

    receipt = bench.producer.send_many(TOPIC, values(), on_delivery=tell)
    assert receipt.done()
    receipt.add_done_callback(lambda _: told.append("receipt"))
    assert told == []
    may_return.set()
    sender.join(30)
    assert told == ["record", "receipt"]


def test_waiting_threads_wake() -> None:
    """Each gets the same answer."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a"], partitions=[0])
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(receipt.result(30))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    bench.run()
    for thread in threads:
        thread.join(30)
    assert answers == [{0: took(1, 0, 0)}] * 3


def test_it_can_be_awaited() -> None:
    """From a running loop, before and after it is settled."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a"], partitions=[0])

    async def wait() -> list[object]:
        asyncio.get_running_loop().call_later(0.01, bench.run)
        return [await receipt, await receipt]

    assert asyncio.run(wait()) == [{0: took(1, 0, 0)}] * 2


def _awaited_in_child(receipt: SendReceipt) -> int:
    async def wait() -> None:
        await asyncio.wait_for(receipt, 5)

    try:
        asyncio.run(wait())
    except ProducerForked:
        return 0
    return 1


def test_a_forked_child_does_not_wait_for_its_parents_records() -> None:
    """Nobody settles them there."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a"], partitions=[0])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            receipt.result(5)
        except ProducerForked:
            code = _awaited_in_child(receipt)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bench.run()
    assert receipt.result(0)[0].count == 1


class _CallInChild:
    """A registered call whose `close_after_fork` raises, or notes that it ran."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.has_run = False

    def __call__(self) -> None:
        """Do nothing in the parent."""

    def close_after_fork(self) -> None:
        """As the class says."""
        if self.error is not None:
            raise self.error
        self.has_run = True


def test_a_call_that_raises_in_a_child_does_not_keep_the_others_from_theirs() -> None:
    """It may be an event loop of the application's own."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a"], partitions=[0])
    last = _CallInChild()
    for call in (_CallInChild(OSError("planted")), last):
        assert receipt._kprod.account.add_done_call(call)
    child = os.fork()
    if child == 0:
        os._exit(0 if last.has_run else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bench.run()


def test_purged_records_are_named() -> None:
    """A purge settles the receipt."""
    bench = Bench()
    receipt = bench.producer.send_many(TOPIC, [b"a", b"b"], partitions=[0, 1])
    assert bench.producer.purge() == 2
    assert receipt.failed_count == 2
    assert receipt.done()


def test_an_error_that_carries_a_receipt_can_be_pickled() -> None:
    """The receipt stays behind."""
    bench = Bench(buffer_memory=64 * 1024)
    with pytest.raises(TimeoutError) as caught:
        bench.producer.send_many(TOPIC, [b"x" * 1000] * 100)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert again.receipt is None  # type: ignore[attr-defined]
    bench.producer.close(0)  # the error keeps it alive, and its records


def test_its_repr_says_where_the_records_are() -> None:
    """Offsets of the first partitions, how many others there are, and the first failure."""
    bench = Bench((0, 0, 0, 0, 0))
    receipt = bench.producer.send_many(TOPIC, [b"v"] * 10, partitions=[n // 2 for n in range(10)])
    assert repr(receipt) == "<SendReceipt for 'orders': 10 records, pending, 0 failed>"
    bench.run()
    assert repr(receipt) == (
        "<SendReceipt for 'orders': 10 records, settled, 0 failed; orders-0: 2 delivered, offsets"
        " 0 to 1; orders-1: 2 delivered, offsets 0 to 1; orders-2: 2 delivered, offsets 0 to 1; and"
        " 2 more partitions>"
    )
    failed = bench.producer.send_many(TOPIC, [b"a", b"b"], partitions=[1, 1])
    bench.producer.purge()
    assert repr(failed) == (
        "<SendReceipt for 'orders': 2 records, settled, 2 failed; the first, at index 0:"
        " Purged('the record was purged before it was sent')>"
    )
