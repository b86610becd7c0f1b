"""Batches between append and drain: topics that change, batches that end early, dropped ones."""

import tracemalloc
import uuid
from typing import Any

import pytest

from kprod import RecordFuture
from kprod.errors import (
    BufferTimeout,
    ClosedError,
    DeliveryTimeout,
    Persistence,
    Purged,
    UnknownPartition,
)
from tests.producer.bench import TOPIC, Bench
from tests.producer.stage import Stage

OTHER_ID = uuid.UUID(int=2)
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45
UNKNOWN_TOPIC_ID = 100


def _values(bench: Bench) -> list[list[bytes]]:
    return [model.log for model in bench.partitions]


def test_added_partitions_are_used_without_being_named() -> None:
    """Keys spread over all of them as soon as the cluster says so."""
    bench = Bench(leaders=(0,))
    bench.lead(0, 1, 0, 1)
    bench.turn()
    assert bench.head.partition_count == 4
    for number in range(40):
        bench.producer.send(TOPIC, b"v", key=b"%d" % number)
    bench.run()
    assert all(_values(bench))
    bench.producer.close()


def test_fewer_partitions_with_the_same_id_are_a_broker_that_lags() -> None:
    """Nothing is dropped for it: the response is not believed."""
    bench = Bench(leaders=(0, 0, 0))
    future = bench.send(2, b"v")
    bench.lead(0, 0)
    bench.turn(100)
    assert bench.head.partition_count == 3
    assert not future.done()
    bench.lead(0, 0, 0)
    bench.run()
    assert future.result(0).offset == 0
    bench.producer.close()


def test_a_topic_made_again_with_fewer_partitions_fails_records_of_the_others() -> None:
    """At once, by name; new sends to them are rejected, keys go to those there are."""
    bench = Bench(leaders=(0, 0, 0))
    lost, kept = bench.send(2, b"lost"), bench.send(1, b"kept")
    bench.lead(0, 0, topic_id=OTHER_ID)
    bench.turn()
    error = lost.exception(0)
    assert isinstance(error, UnknownPartition)
    assert "partition 2 of 'orders' is gone: the topic was deleted and made again" in str(error)
    assert error.persistence is Persistence.NOT_PERSISTED
    with pytest.raises(UnknownPartition, match="has no partition 2: its last is 1"):
        bench.send(2, b"v")
    for number in range(20):
        bench.producer.send(TOPIC, b"v", key=b"%d" % number)
    bench.run()
    assert kept.result(0).offset == 0
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_a_send_that_waited_until_its_partition_was_gone_fails_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its partition was checked before it waited for memory; nobody is asked for a leader then."""
    bench = Bench(leaders=(0, 0, 0), linger_ms=0)
    support, make_batch = bench.producer._kprod.support, bench.accumulator.make_batch

    def make_late(*arguments: Any) -> Any:
        bench.lead(0, 0, topic_id=OTHER_ID)
        bench.turn()
        return make_batch(*arguments)

    monkeypatch.setattr(support, "make_batch", make_late)
    late = bench.send(2, b"late")
    assert not late.done()
    bench.turn()
    error = late.exception(0)
    assert isinstance(error, UnknownPartition)
    assert error.persistence is Persistence.NOT_PERSISTED
    bench.turn()
    assert bench.accumulator.leaderless_topics == []
    assert not bench.accumulator.wants_routes()
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_an_epoch_that_waits_for_a_partition_ends_in_the_turn_in_which_that_is_gone() -> None:
    """Its batch of unknown outcome fails; then nothing else would wake the sender."""
    bench = Bench(leaders=(0, 0), linger_ms=0)
    unknown = bench.send(1, b"unknown")
    bench.turn()
    bench.turn()
    bench.client.lose(bench.client.in_flight[0])
    kept = bench.send(0, b"kept")
    bench.turn()
    bench.turn()
    bench.reject(bench.client.in_flight[0], OUT_OF_ORDER)
    bench.turn()
    manager = bench.producer._kprod.transaction_manager
    assert manager.bump_is_pending
    bench.lead(0, topic_id=OTHER_ID)
    bench.turn()
    error = unknown.exception(0)
    assert isinstance(error, UnknownPartition)
    assert error.persistence is Persistence.POSSIBLY_PERSISTED
    assert not manager.bump_is_pending
    bench.run()
    assert kept.result(0).offset == 0
    bench.producer.close()


def test_a_partition_without_batches_needs_no_leader() -> None:
    """Its last batch has failed: the cluster is not asked for a leader any more."""
    bench = Bench(leaders=(0,), linger_ms=0, delivery_timeout_ms=1_000, request_timeout_ms=1_000)
    bench.lead(-1)
    late = bench.send(0, b"late")
    bench.turn()
    assert bench.accumulator.leaderless_topics == [TOPIC]
    bench.turn(1_000)
    assert isinstance(late.exception(0), DeliveryTimeout)
    assert bench.accumulator.leaderless_topics == []
    assert not bench.accumulator.wants_routes()
    bench.producer.close()


def test_batches_in_flight_to_a_removed_partition_are_awaited_first() -> None:
    """Its response decides; those behind it follow, in the order of their sends."""
    bench = Bench(leaders=(0, 0), linger_ms=0)
    first = bench.send(1, b"first")
    bench.turn()
    bench.turn()
    behind = bench.send(1, b"behind")
    bench.lead(0, topic_id=OTHER_ID)
    bench.turn()
    assert not first.done()
    assert not behind.done()
    bench.reject(bench.client.in_flight[0], 3)
    bench.turn()
    assert isinstance(first.exception(0), UnknownPartition)
    assert isinstance(behind.exception(0), UnknownPartition)
    assert [value for value, _ in bench.partitions[1].outcomes] == [b"first", b"behind"]
    bench.producer.close()


def test_a_topic_made_again_keeps_its_sequences_and_pipelines_after_a_success() -> None:
    """The new log takes any first sequence; two at once could be swapped there."""
    bench = Bench(leaders=(0,), linger_ms=0)
    bench.send(0, b"old")
    bench.run(turns=5)
    bench.partitions[0].epoch = -1  # the new topic's log knows nobody
    bench.lead(0, topic_id=OTHER_ID)
    bench.turn()
    bench.send(0, b"one")
    bench.turn()
    bench.send(0, b"two")
    bench.turn()
    assert len(bench.client.in_flight) == 1
    bench.run(turns=5)
    assert bench.partitions[0].remembered[-1].last == 2
    assert _values(bench) == [[b"old", b"one", b"two"]]
    bench.producer.close()


def test_a_batch_of_a_topic_made_again_is_sent_again_after_its_back_off() -> None:
    """Old metadata can bring the old topic back each time: only another leader needs no wait."""
    bench = Bench(leaders=(0,), linger_ms=0, retry_backoff_ms=100)
    bench.send(0, b"v")
    bench.turn()
    bench.turn()
    bench.lead(0, topic_id=OTHER_ID)
    bench.turn()
    bench.reject(bench.client.in_flight[0], UNKNOWN_TOPIC_ID)
    bench.turn()
    bench.turn(78)  # the back-off is 100 ms, give or take a fifth
    assert bench.client.in_flight == []
    bench.turn(44)
    assert len(bench.client.in_flight) == 1
    bench.run(turns=5)
    assert _values(bench) == [[b"v"]]
    bench.producer.close()


def test_a_success_in_a_deleted_topic_opens_no_pipeline_to_the_new_one() -> None:
    """Batches in flight to the old topic are awaited; then the new one's first, alone."""
    bench = Bench(leaders=(0,), linger_ms=0, batch_size=1)
    bench.send(0, b"warm")
    bench.run(turns=5)
    for value in (b"old", b"older"):
        bench.send(0, value)
        bench.turn()
    bench.lead(0, topic_id=OTHER_ID)
    for value in (b"one", b"two"):
        bench.send(0, value)
        bench.turn()
    old, older = list(bench.client.in_flight)
    bench.answer(old)
    bench.turn()
    bench.turn()
    assert bench.client.in_flight == [older]
    bench.answer(older)
    bench.turn()
    bench.turn()
    assert len(bench.client.in_flight) == 1
    bench.run(turns=5)
    assert _values(bench) == [[b"warm", b"old", b"older", b"one", b"two"]]
    bench.producer.close()


def test_a_forgotten_topic_keeps_its_sequences() -> None:
    """Starting again at 0 would make brokers drop new records as old ones."""
    bench = Bench(leaders=(0,), linger_ms=0)
    bench.send(0, b"one")
    bench.run(turns=5)
    bench.forget_topic()
    future = bench.send(0, b"two")
    bench.turn(50)
    assert not bench.client.in_flight
    bench.lead(0)
    bench.run(turns=5)
    assert future.result(0).offset == 1
    bench.producer.close()


def test_no_record_joins_a_batch_that_is_being_settled() -> None:
    """The deadline of an open batch passes: a callback that sends gets another one."""
    bench = Bench(leaders=(-1,), linger_ms=0, request_timeout_ms=50, delivery_timeout_ms=100)
    again: list[Any] = []
    bench.producer.send(
        TOPIC, b"v", partition=0, on_delivery=lambda *_: again.append(bench.send(0, b"again"))
    )
    bench.turn()
    bench.turn(200)
    assert len(again) == 1
    assert not again[0].done()
    bench.turn(200)
    assert isinstance(again[0].exception(0), DeliveryTimeout)
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_an_expired_batch_names_what_the_topic_has_become() -> None:
    """Old brokers have no topic ids: fewer partitions are known, and why cannot be."""
    bench = Bench(leaders=(0, 0), linger_ms=0, request_timeout_ms=50, delivery_timeout_ms=100)
    future = bench.send(1, b"v")
    bench.lead(0)
    bench.turn()
    bench.turn(200)
    with pytest.raises(DeliveryTimeout, match="has no partition 1 any more: its last is 0"):
        future.result(0)
    bench.producer.close()


def test_of_two_batches_with_one_deadline_the_older_ends_first() -> None:
    """Both were begun in the same millisecond."""
    bench = Bench(leaders=(-1,), batch_size=1, request_timeout_ms=50, delivery_timeout_ms=100)
    for number in range(5):
        bench.send(0, b"%d" % number)
    bench.turn()
    bench.turn(200)
    assert [value for value, _ in bench.partitions[0].outcomes] == [b"%d" % n for n in range(5)]
    bench.producer.close()


def test_a_rejection_behind_one_that_is_retried_waits_for_it() -> None:
    """Outcomes keep the order of sends: the second fails only after the first succeeded."""
    bench = Bench(leaders=(0,), linger_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=1)
    bench.send(0, b"warm")
    bench.run(turns=3)
    for value in (b"first", b"second"):
        bench.send(0, value)
        bench.turn()
    first, second = list(bench.client.in_flight)
    bench.reject(first, NOT_ENOUGH_REPLICAS)
    bench.reject(second, 87)
    bench.turn()
    assert len(bench.partitions[0].outcomes) == 1
    bench.turn(5)
    bench.answer(bench.client.in_flight[0])
    bench.turn()
    bench.turn(5)
    bench.reject(bench.client.in_flight[0], 87)
    bench.turn()
    assert [v for v, _ in bench.partitions[0].outcomes] == [b"warm", b"first", b"second"]
    assert bench.partitions[0].outcomes[2][1] == "NOT_PERSISTED"
    bench.producer.close()


def test_purge_drops_records_that_are_not_on_their_way() -> None:
    """Batches in flight, or perhaps in the log, continue; the rest fails as not persisted."""
    bench = Bench(leaders=(0, 0), linger_ms=0)
    flying = bench.send(0, b"flying")
    bench.turn()
    bench.turn()
    waiting = [bench.send(0, b"behind"), bench.send(1, b"open")]
    assert bench.producer.purge() == 2
    for future in waiting:
        error = future.exception(0)
        assert isinstance(error, Purged)
        assert error.persistence is Persistence.NOT_PERSISTED
    bench.run(turns=5)
    assert flying.result(0).offset == 0
    after = bench.send(0, b"after")
    bench.run(turns=5)
    assert after.result(0).offset == 1
    assert bench.pool.lent_bytes == 0
    bench.producer.close()
    with pytest.raises(ClosedError):
        bench.producer.purge()


def test_flush_counts_undelivered_records() -> None:
    """Linger is cut for records sent before; 0 is success."""
    bench = Bench(leaders=(0,), linger_ms=60_000)
    bench.send(0, b"one")
    assert bench.producer.flush(0) == 1
    bench.turn()
    bench.turn()
    assert len(bench.client.in_flight) == 1
    bench.answer(bench.client.in_flight[0])
    bench.turn()
    assert bench.producer.flush(0) == 0
    bench.producer.close()


def test_a_full_buffer_sends_what_there_is() -> None:
    """Open batches are due when memory is short, whatever linger says."""
    bench = Bench(leaders=(0,), linger_ms=60_000, buffer_memory=32_768, on_buffer_full="raise")
    while True:
        try:
            bench.send(0, b"x" * 1_000)
        except TimeoutError:
            break
    bench.turn()
    bench.turn()
    assert len(bench.client.in_flight) == 1
    bench.run(turns=5)
    assert bench.pool.lent_bytes == 0
    bench.producer.close()


def test_a_stalled_broker_costs_no_more_than_the_buffer() -> None:
    """Sends are rejected when it is full: 1.2 times `buffer_memory`, and the futures kept."""
    buffer_memory = 4 * 1024 * 1024
    bench = Bench(buffer_memory=buffer_memory, on_buffer_full="raise", batch_size=100_000)
    bench.producer.send(TOPIC, b"warm")
    bench.run(turns=3)
    futures: list[RecordFuture] = []
    tracemalloc.start()
    try:
        for rounds in range(2_000):
            if not _offer(bench, futures) and rounds > 1_000:
                break
        grown_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bench.pool.available_bytes < 64 * 1024
    assert grown_bytes <= 1.2 * buffer_memory + 72 * len(futures)
    bench.producer.close(0)
    assert bench.pool.lent_bytes == 0


def _offer(bench: Bench, futures: list[RecordFuture]) -> bool:
    """Send a hundred records; False when the buffer is full, after a turn of the sender."""
    try:
        futures += [bench.producer.send(TOPIC, b"x" * 100) for _ in range(100)]
    except BufferTimeout:
        bench.turn(10)
        return False
    return True


def test_ten_thousand_open_batches_are_cheap() -> None:
    """One small chunk each: at most 25 MiB of the pool."""
    count = 10_000
    bench = Bench(leaders=(0,) * count)
    for partition in range(count):
        bench.producer.send(TOPIC, b"x" * 100, partition=partition)
    assert bench.pool.lent_bytes <= 25 * 1024 * 1024
    assert bench.producer.close(0) == count
    assert bench.pool.lent_bytes == 0


def test_topics_without_leader_are_listed_as_their_records_came() -> None:
    """Each once, in an order that does not depend on how a process hashes their names."""
    names = [f"topic-{number}" for number in range(50)]
    stage = Stage({name: [-1, -1] for name in names})
    for partition in range(2):
        for name in names:
            stage.put(b"v", name, partition)
    stage.run()

    assert stage.producer._kprod.accumulator.leaderless_topics == names
