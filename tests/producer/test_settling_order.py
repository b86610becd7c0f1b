"""Callbacks run in the order of sending, whatever ends a batch: gone, attempts, codec, purge."""

import contextlib
import uuid
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kprod.compression import Buffer
from kprod.errors import BufferTimeout, KprodError, Purged, UnknownPartition
from kprod.protocol.error_table import error_for
from tests.producer.bench import TOPIC, Bench, Carried, own_compressor
from tests.producer.stage import Stage

MESSAGE_TOO_LARGE = 10
NOT_LEADER = 6
OUT_OF_ORDER = 45
UNKNOWN_PARTITION = 3
INVALID_RECORD = 87
REJECTIONS = [MESSAGE_TOO_LARGE, INVALID_RECORD, OUT_OF_ORDER, 2, 7, 19]
DELIVERY_MS = 500
CODEC_FAULT = "planted in the codec"
RARELY = 3  # what ends everything at once hides what would have happened


def _pipeline(stage: Stage) -> None:
    """A first record is acknowledged; then a batch of two records and one of one are in flight."""
    stage.send(b"first")
    stage.answer()
    stage.settled.clear()
    stage.put(b"0")
    stage.put(b"1")
    stage.run()
    stage.send(b"2")
    assert [held.batch.count for held in stage.held] == [2, 1]


def _values(stage: Stage) -> list[bytes]:
    return [value for value, _ in stage.settled]


def test_a_batch_whose_attempts_are_used_up_waits_for_those_before_it() -> None:
    """A part of a split batch has an attempt more than the batch behind it."""
    stage = Stage(retries=1, max_request_size=10_000)
    _pipeline(stage)
    stage.answer(MESSAGE_TOO_LARGE)
    stage.answer(OUT_OF_ORDER)
    stage.run(300)
    stage.answer(0, 1)
    assert _values(stage) == [b"0"]
    assert len(stage.held) == 2
    stage.drop_connections()
    stage.run()
    assert _values(stage) == [b"0"], "a batch failed before the one that was sent first"
    stage.run(3_000)
    assert stage.answer(0, 2).batch.count == 1
    assert _values(stage) == [b"0", b"1", b"2"]
    assert stage.settled[1][1] is None
    error = stage.settled[2][1]
    assert error is not None
    assert error.persistence is not None


def test_a_batch_of_a_partition_that_is_gone_waits_for_those_before_it() -> None:
    """The topic is made again without it: answers are awaited, and all fail in order."""
    bench = Bench((0, 0), linger_ms=0)
    order: list[tuple[int, KprodError | None]] = []

    def send(number: int) -> None:
        bench.producer.send(
            TOPIC, b"v", partition=1, on_delivery=lambda _, error: order.append((number, error))
        )
        bench.turn()

    send(0)
    bench.run(4, 0)
    for number in (1, 2, 3):
        send(number)
    assert len(bench.client.in_flight) == 3
    bench.lead(0, topic_id=uuid.UUID(int=2))
    bench.turn()
    for carried in reversed(list(bench.client.in_flight)):
        bench.client.lose(carried)
        bench.turn()
    bench.turn()
    bench.producer.close(0)
    assert [number for number, _ in order] == [0, 1, 2, 3]
    assert all(isinstance(error, UnknownPartition) for _, error in order[1:])


def test_a_batch_that_cannot_be_encoded_waits_for_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One before it is in flight, and decides first."""
    stage = Stage(compression_type="gzip")
    stage.send(b"first")
    stage.answer()
    stage.settled.clear()
    stage.send(b"0")
    compressor = own_compressor(stage.producer)
    compress = compressor.compress

    def fail(_: bytes) -> Any:
        monkeypatch.setattr(compressor, "compress", compress)
        raise MemoryError(CODEC_FAULT)

    monkeypatch.setattr(compressor, "compress", fail)
    stage.send(b"1")
    stage.send(b"2")
    assert _values(stage) == []
    stage.answer(0, 1)
    stage.run(1_000)
    stage.answer(0, 2)
    assert _values(stage) == [b"0", b"1", b"2"]
    assert [error is None for _, error in stage.settled] == [True, False, True]
    assert CODEC_FAULT in str(stage.settled[1][1])


def test_an_error_that_is_final_waits_for_those_before_it() -> None:
    """A response that cannot be read ends its own batch, and the oldest is to go again."""
    bench = Bench((0,), linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=100)
    order: list[int] = []

    def send(number: int) -> None:
        bench.producer.send(
            TOPIC, b"v", partition=0, on_delivery=lambda _, __: order.append(number)
        )
        bench.turn()

    send(0)
    bench.run(4, 0)
    for number in (1, 2):
        send(number)
    first, second = bench.client.in_flight
    bench.reject(first, NOT_LEADER)
    bench.turn()
    bench.client.in_flight.remove(second)
    bench.client.complete(second.request, error=error_for(INVALID_RECORD))
    bench.turn()
    assert order == [0], "a batch failed before the one that was sent first"
    bench.run()
    bench.producer.close(0)
    assert order == [0, 1, 2]


def test_a_failure_that_waits_leaves_the_oldest_batch_ready() -> None:
    """Its leader has moved, so it needs no back-off; it goes out after the last response."""
    bench = Bench((0,), linger_ms=0)

    def send(number: int) -> None:
        bench.producer.send(TOPIC, b"%d" % number, partition=0)
        bench.turn()

    send(0)
    bench.run(4, 0)
    for number in (1, 2):
        send(number)
    first, second = bench.client.in_flight
    bench.lead(1)
    bench.reject(first, NOT_LEADER)
    bench.turn()
    bench.turn()
    assert bench.client.in_flight == [second]
    bench.client.in_flight.remove(second)
    bench.client.complete(second.request, error=error_for(INVALID_RECORD))
    bench.turn()
    bench.turn()
    assert bench.client.in_flight_of(1) == 1
    bench.producer.close(0)


def test_a_batch_that_waits_to_fail_is_not_sent_again() -> None:
    """Those before it are parts of a split batch: the first one's success lets others follow."""
    bench = Bench((0,), linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=100)
    order: list[int] = []

    def send(number: int) -> None:
        bench.producer.send(
            TOPIC, b"v", partition=0, on_delivery=lambda _, __: order.append(number)
        )

    send(0)
    bench.run(4, 0)
    send(1)
    send(2)
    bench.turn()
    send(3)
    bench.turn()
    first, second = bench.client.in_flight
    bench.reject(first, NOT_LEADER)
    bench.turn()
    bench.client.in_flight.remove(second)
    bench.client.complete(second.request, error=error_for(INVALID_RECORD))
    bench.turn()
    bench.turn(200)
    bench.reject(bench.client.in_flight[0], MESSAGE_TOO_LARGE)
    bench.turn()
    bench.turn()
    for number in (1, 2):
        assert order == list(range(number))
        (carried,) = bench.client.in_flight
        bench.answer(carried)
        bench.turn()
        bench.turn()
    assert order == [0, 1, 2, 3]
    assert bench.client.in_flight == [], "a batch that failed was sent"
    bench.producer.close(0)


def test_a_purged_partition_does_not_wait_for_the_rest_of_a_back_off() -> None:
    """Nothing is left that was tried, so there is nothing to back off for."""
    stage = Stage(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    stage.send(b"first")
    stage.answer()
    stage.send(b"rejected")
    stage.answer(2)
    assert stage.producer.purge() == 1
    stage.run()
    stage.send(b"next")
    assert len(stage.held) == 1, "the partition waits for a record that is gone"
    stage.answer(0, 1)
    stage.send(b"rejected too")
    stage.answer(2)
    stage.run(5_000)
    assert not stage.held, "the timer of the back-off that was ended has ended another"
    stage.run(8_000)
    assert len(stage.held) == 1


def test_a_back_off_continues_while_a_tried_batch_is_left() -> None:
    """A purge leaves what may be in the log: it goes again in its time."""
    stage = Stage(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    stage.send(b"first")
    stage.answer()
    stage.send(b"of unknown outcome")
    stage.answer(7)
    stage.put(b"purged")
    stage.run()
    assert stage.producer.purge() == 1
    stage.run(5_000)
    assert not stage.held
    stage.run(8_000)
    assert stage.answer(0, 1).batch.count == 1


class SettlingMachine(RuleBasedStateMachine):
    """One broker, two partitions, of which the second comes and goes; few attempts, short lives.

    The model is a list of the records sent to each partition: the callbacks, except those of purged
    records, run in its order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(
            (0, 0),
            linger_ms=5,
            batch_size=2_000,
            buffer_memory=256 * 1024,
            request_timeout_ms=200,
            delivery_timeout_ms=DELIVERY_MS,
            retry_backoff_ms=10,
            retry_backoff_max_ms=20,
            retries=2,
            compression_type="gzip",
        )
        compressor = own_compressor(self.bench.producer)
        self.compress = compressor.compress
        compressor.compress = self.encode
        self.codec_fails = False
        self.sent: list[list[int]] = [[], []]
        self.settled: list[list[int]] = [[], []]
        self.purged: set[int] = set()
        self.topic_number = 1
        self.number = 0
        for partition in (0, 1):  # a partition has one batch in flight until its first success
            self.send(partition, 1)
        self.bench.producer.flush(0)
        for _ in range(3):
            self.bench.turn()
        for carried in list(self.bench.client.in_flight):
            self._answer(carried, 0)
        self.bench.turn()

    def encode(self, plain: Buffer) -> Any:
        """Compress, or fail once."""
        if self.codec_fails:
            self.codec_fails = False
            raise MemoryError(CODEC_FAULT)
        return self.compress(plain)

    def send(self, partition: int, size: int) -> None:
        """Accepted, or rejected because the partition is gone."""
        number = self.number = self.number + 1

        def note(_: Any, error: KprodError | None) -> None:
            self.settled[partition].append(number)
            if isinstance(error, Purged):
                self.purged.add(number)

        with contextlib.suppress(UnknownPartition, BufferTimeout):
            self.bench.producer.send(TOPIC, b"x" * size, partition=partition, on_delivery=note)
            self.sent[partition].append(number)

    @rule(partition=st.integers(0, 1), counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def send_batches(self, partition: int, counts: list[int]) -> None:
        """Each with this many records, and each in flight if it may be sent."""
        for count in counts:
            for _ in range(count):
                self.send(partition, 10)
            self.bench.producer.flush(0)
            self.bench.turn()

    @rule(advance_ms=st.sampled_from([0, 20]))
    def turn(self, advance_ms: int) -> None:
        """The sender's; a back-off may pass."""
        self.bench.turn(advance_ms)

    @precondition(lambda self: self.bench.client.in_flight)
    @rule()
    def acknowledge(self) -> None:
        """The oldest request."""
        self._answer(self.bench.client.in_flight[0], 0)
        self.bench.turn()

    @precondition(lambda self: self.bench.client.in_flight)
    @rule(code=st.sampled_from(REJECTIONS))
    def reject(self, code: int) -> None:
        """The oldest request, with any error."""
        self._answer(self.bench.client.in_flight[0], code)
        self.bench.turn()

    def _answer(self, carried: Carried, code: int) -> None:
        answers = {
            partition: (
                (UNKNOWN_PARTITION, -1)
                if partition >= len(self.bench.leaders)
                else (code, -1 if code else self.number)
            )
            for partition in carried.batches
        }
        self.bench.answer(carried, answers)

    @precondition(lambda self: self.bench.client.in_flight)
    @rule(was_written=st.booleans(), is_final=st.booleans())
    def lose(self, was_written: bool, is_final: bool) -> None:
        """The connection with all its requests; some errors are not to be retried."""
        client = self.bench.client
        for carried in list(client.in_flight):
            if is_final:
                client.in_flight.remove(carried)
                client.complete(carried.request, error=error_for(INVALID_RECORD))
            else:
                client.lose(carried, was_written=was_written)
        self.bench.turn()

    @rule()
    def make_anew(self) -> None:
        """The topic is deleted and made again, without its second partition or with it again."""
        self.topic_number += 1
        leaders = (0,) if len(self.bench.leaders) > 1 else (0, 0)
        self.bench.lead(*leaders, topic_id=uuid.UUID(int=self.topic_number))
        self.bench.turn()

    @rule()
    def fail_codec(self) -> None:
        """The next batch cannot be encoded."""
        self.codec_fails = True

    @precondition(lambda self: self.number % RARELY == 0)
    @rule()
    def purge(self) -> None:
        """Records that are certainly not in flight."""
        self.bench.producer.purge()

    @precondition(lambda self: self.number % RARELY == 0)
    @rule(part=st.sampled_from([2, 1]))
    def expire(self, part: int) -> None:
        """Deadlines pass, of all or of some."""
        self.bench.turn(DELIVERY_MS // part)

    @invariant()
    def callbacks_run_in_the_order_of_sending(self) -> None:
        """Each once; a purged record's may come early."""
        for partition in (0, 1):
            settled = self.settled[partition]
            assert len(settled) == len(set(settled)), "a callback ran twice"
            kept = [number for number in settled if number not in self.purged]
            assert kept == sorted(kept), "callbacks ran out of order"

    def teardown(self) -> None:
        """In calm weather everything is settled soon, nothing is lent, and records go through."""
        bench = self.bench
        self.codec_fails = False
        bench.lead(0, 0, topic_id=uuid.UUID(int=self.topic_number + 1))
        bench.turn()
        probes = [bench.producer.send(TOPIC, b"probe", partition=index) for index in (0, 1)]
        for _ in range(15):
            bench.turn(20)
            for carried in list(bench.client.in_flight):
                self._answer(carried, 0)
            bench.turn()
        assert [probe.exception(0) for probe in probes] == [None, None]
        self.callbacks_run_in_the_order_of_sending()
        assert [len(settled) for settled in self.settled] == [len(sent) for sent in self.sent]
        assert bench.pool.lent_bytes == 0
        bench.producer.close()


TestSettling = SettlingMachine.TestCase
TestSettling.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
