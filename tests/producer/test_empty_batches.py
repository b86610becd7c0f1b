"""An open batch that no record came into: it has no time, and ends nothing."""

from kprod.producer.batch import ProducerBatch
from tests.producer.bench import TOPIC, Bench

DELIVERY_MS = 2_000


def _bench() -> Bench:
    """A producer that has its id."""
    bench = Bench(
        leaders=(0,), linger_ms=5, delivery_timeout_ms=DELIVERY_MS, request_timeout_ms=500
    )
    bench.run(3)
    return bench


def _open_empty(bench: Bench) -> ProducerBatch:
    """Create a batch as a thread that then must append elsewhere."""
    queue = bench.head.queues[0]
    chain = bench.pool.try_chain()
    assert chain is not None
    batch = bench.accumulator.make_batch(queue, chain)
    assert queue.open(batch)
    bench.accumulator.inbox.append(queue)
    return batch


def test_it_has_no_deadline_until_its_first_record_comes() -> None:
    """A record that comes late into it gets its whole delivery timeout."""
    bench = _bench()
    batch = _open_empty(bench)
    bench.turn()
    assert bench.timers() == 0
    bench.turn(DELIVERY_MS - 100)
    future = bench.send(0, b"late")
    assert batch.record_count == 1
    bench.turn(200)
    assert not future.done()
    bench.run()
    assert future.result(0).offset == 0
    bench.producer.close()


def test_swept_empty_it_takes_its_timers_along() -> None:
    """A delivery timeout later the records of its partition are untouched."""
    bench = _bench()
    batch = _open_empty(bench)
    batch.builder.try_append(0, None, b"v")  # armed as if it had a record
    bench.turn()
    assert bench.timers() > 0
    bench.accumulator.forget(batch)
    assert bench.timers() == 0
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_a_flush_gives_its_memory_back() -> None:
    """And sends the batch behind it."""
    bench = _bench()
    empty = _open_empty(bench)
    bench.head.queues[0].seal()
    future = bench.producer.send(TOPIC, b"behind", partition=0)
    bench.producer._kprod.flush_soon()
    bench.turn()
    assert empty not in bench.head.queues[0].batches
    assert bench.client.in_flight_of(0) == 1
    bench.run()
    assert future.result(0).offset == 0
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_the_deadline_of_a_batch_that_is_gone_ends_no_other() -> None:
    """Its timer fires once more at worst; the younger batches stay."""
    bench = _bench()
    gone = _open_empty(bench)
    bench.accumulator.forget(gone)
    future = bench.producer.send(TOPIC, b"young", partition=0)
    bench.producer._kprod.delivery.expiry.expire(gone)
    assert not future.done()
    bench.run()
    assert future.result(0).offset == 0
    bench.producer.close()
