"""Every observer of a record hears of it once, and all hear the same, which is what the log says.

Records with up to three observers of any kind, splits to any depth, any response for each part, and
purge, expiry, close and fork at any time. The log is that of `tests.oracle.accumulator_model`.
"""

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kprod.errors import Persistence, ProducerForked
from kprod.producer.receipt import SendReceipt
from tests.producer.bench import TOPIC, Bench, produce_body
from tests.producer.observers import (
    KINDS,
    RECEIPT_KINDS,
    Observed,
    Observers,
    Outcome,
    outcome_of,
    outcome_of_done,
)

EXAMPLES = {"long": 20_000, "fuzz": 100_000}  # others: as many as the profile says
MESSAGE_TOO_LARGE = 10
REQUEST_TIMED_OUT = 7
INVALID_RECORD = 87
DELIVERY_TIMEOUT_MS = 60_000
BASE_OFFSET = 100  # records of others that were there before

_kinds = st.sampled_from(sorted(KINDS))
_values = st.sampled_from([0, 0, 30, 300])  # bytes behind the number that makes a value its own
_responses = st.sampled_from(["split"] * 4 + ["take"] * 3 + ["reject", "reject some", "again"])
_records = st.tuples(
    st.integers(0, 1), _values, st.booleans(), st.lists(_kinds, max_size=2)
)  # partition, size, whether there is an `on_delivery`, and the other observers
_steps = st.one_of(
    st.tuples(st.just("answer"), st.integers(0, 3), _responses, _responses),
    st.tuples(st.just("answer"), st.integers(0, 3), _responses, _responses),
    st.tuples(st.just("lose"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("send"), _records),
    st.tuples(
        st.just("send many"),
        st.lists(st.tuples(st.integers(0, 1), _values), min_size=1, max_size=8),
        st.booleans(),
        st.lists(st.sampled_from(sorted(RECEIPT_KINDS)), max_size=3),
    ),
    st.tuples(st.just("observe"), st.lists(st.integers(0, 30), min_size=1, max_size=5), _kinds),
    st.tuples(st.just("turn"), st.sampled_from([0, 1, 200])),
)
_ends = st.sampled_from(["settle"] * 4 + ["purge", "expire", "close", "fork"])


@dataclass
class Bulk:
    """One bulk send: its receipt, what that says to each observer, and each record's outcomes."""

    values: list[bytes]
    partitions: list[int]
    receipt: SendReceipt
    told: list[Outcome] | None
    heard: list[list[Outcome]] = field(default_factory=list)


class Play:
    """One example."""

    def __init__(self) -> None:
        self.bench = Bench(
            (0, 0),
            linger_ms=0,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=DELIVERY_TIMEOUT_MS - 1,
        )
        for model in self.bench.partitions:
            model.log += [b"another client's"] * BASE_OFFSET
        self.observers = Observers()
        self.records: list[Observed] = []
        self.bulks: list[Bulk] = []
        self.value_count = 0

    def value(self, size_bytes: int) -> bytes:
        """One that no other record has."""
        self.value_count += 1
        return b"%d " % self.value_count + b"x" * size_bytes

    def send(self, record: tuple[int, int, bool, list[str]]) -> None:
        """Send one record, with its observers."""
        partition, size_bytes, has_callback, kinds = record
        observed = Observed(self.value(size_bytes))
        observed.future = self.bench.producer.send(
            TOPIC,
            observed.value,
            partition=partition,
            on_delivery=observed.on_delivery() if has_callback else None,
        )
        self.records.append(observed)
        for kind in kinds:
            self.observers.add(kind, [observed])

    def send_many(
        self, records: list[tuple[int, int]], has_callback: bool, kinds: list[str]
    ) -> None:
        """Send several at once."""
        told: list[Outcome] = []
        values = [self.value(size_bytes) for _, size_bytes in records]
        partitions = [partition for partition, _ in records]
        receipt = self.bench.producer.send_many(
            TOPIC,
            values,
            partitions=partitions,
            on_delivery=(lambda *told_of: told.append(outcome_of(*told_of)))
            if has_callback
            else None,
        )
        bulk = Bulk(values, partitions, receipt, told if has_callback else None)
        self.bulks.append(bulk)
        for kind in kinds:
            bulk.heard.append([])
            RECEIPT_KINDS[kind](self.observers, receipt, bulk.heard[-1])

    def observe(self, places: list[int], kind: str) -> None:
        """Let one more observer hear of some records, settled or not."""
        if self.records:
            found = {place % len(self.records): None for place in places}
            self.observers.add(kind, [self.records[place] for place in found])

    def carried(self, place: int) -> Any:
        """A request in flight; None if there is none."""
        for _ in range(3):
            if in_flight := self.bench.client.in_flight:
                return in_flight[place % len(in_flight)]
            self.bench.turn(100)
        return None

    def answer(self, place: int, *kinds: str) -> None:
        """Answer a request, each partition in its own way."""
        carried = self.carried(place)
        if carried is None:
            return
        answers: dict[int, tuple[int, int]] = {}
        named: dict[int, list[int]] = {}
        for (partition, batch), kind in zip(carried.batches.items(), kinds, strict=False):
            event(kind)
            if kind == "take":
                answers[partition] = self.bench.partitions[partition].append(batch)
            elif kind == "split":
                answers[partition] = MESSAGE_TOO_LARGE, -1
            elif kind == "again":
                answers[partition] = REQUEST_TIMED_OUT, -1
            else:
                answers[partition] = INVALID_RECORD, -1
                named[partition] = [0, 2] if kind == "reject some" else []
        body = produce_body(answers)
        for entry in body["responses"][0]["partition_responses"]:
            entry["record_errors"] = [
                {"batch_index": index, "batch_index_error_message": f"record {index} is bad"}
                for index in named.get(entry["index"], [])
            ]
        self.bench.client.answer(carried, body)
        self.bench.turn()

    def lose(self, place: int, is_taken: bool) -> None:
        """Let a connection go, before or after the broker has acted."""
        carried = self.carried(place)
        if carried is not None:
            if is_taken:
                self.bench.apply(carried)
            self.bench.client.lose(carried)
            self.bench.turn()

    def step(self, name: str, *rest: Any) -> None:
        """Take a step by its name."""
        if name == "turn":
            self.bench.turn(*rest)
        else:
            getattr(self, name.replace(" ", "_"))(*rest)
        self.observers.turn()

    def end(self, how: str) -> None:
        """Settle everything."""
        if how == "purge":
            self.bench.producer.purge()
        elif how == "expire":
            self.bench.turn(DELIVERY_TIMEOUT_MS + 1)
        elif how == "fork":
            self.fork()
        if how != "close":
            self.bench.run(10, 200)
        self.bench.producer.close(0)
        self.observers.finish()

    def fork(self) -> None:
        """A child settles what its parent has left, and calls nobody; the parent continues."""
        before = [len(ear) for record in self.records for ear in record.heard]
        settled = {record.value for record in self.records if _future(record).done()}
        pid = os.fork()
        if not pid:
            code = 1
            try:
                self.check_child(before, settled)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def check_child(self, before: list[int], settled: set[bytes]) -> None:
        """Nothing is left open, and settled records are as they were."""
        assert before == [len(ear) for record in self.records for ear in record.heard]
        for record in self.records:
            error = _future(record).exception(0)
            if record.value not in settled:
                assert isinstance(error, ProducerForked)
                assert error.persistence is Persistence.POSSIBLY_PERSISTED
            else:
                assert not isinstance(error, ProducerForked)

    def check(self) -> None:
        """Compare what everyone heard with the log."""
        for record in self.records:
            outcome = outcome_of_done(record.future)
            assert record.heard == [[outcome]] * len(record.heard), record.value
            self.check_outcome(record.value, outcome)
        for bulk in self.bulks:
            self.check_bulk(bulk)

    def check_outcome(self, value: bytes, outcome: Outcome) -> None:
        """Delivered means: at that offset; not persisted means: nowhere."""
        count = sum(model.log.count(value) for model in self.bench.partitions)
        if outcome[0] == "delivered":
            _, topic, partition, offset, *_ = outcome
            assert topic == TOPIC
            assert count == 1
            assert isinstance(partition, int)
            assert isinstance(offset, int)
            log = self.bench.partitions[partition].log
            assert log[offset] == value if offset >= 0 else value in log
        else:
            assert count <= (outcome[3] is Persistence.POSSIBLY_PERSISTED), outcome

    def check_bulk(self, bulk: Bulk) -> None:
        """Compare a receipt, its observers and its callbacks with the log."""
        receipt = bulk.receipt
        failures = {failure.index: failure.error for failure in receipt.failures()}
        for ear in bulk.heard:
            assert len(ear) == 1
            assert ear == bulk.heard[0]
        told: Counter[object] = Counter()
        for index, (value, partition) in enumerate(zip(bulk.values, bulk.partitions, strict=True)):
            error = failures.get(index)
            if error is not None:
                outcome = outcome_of(None, error)
                self.check_outcome(value, outcome)
                told[outcome] += 1
                continue
            log = self.bench.partitions[partition].log
            ranges = receipt.delivered()[partition].ranges
            assert log.count(value) == 1
            offset = log.index(value)
            told["delivered", partition, offset] += 1
            if sum(last - first + 1 for first, last in ranges) >= bulk.partitions.count(partition):
                assert any(first <= offset <= last for first, last in ranges)
        counts = Counter(p for i, p in enumerate(bulk.partitions) if i not in failures)
        assert {p: part.count for p, part in receipt.delivered().items() if part.count} == counts
        if bulk.told is not None:
            assert len(bulk.told) == len(bulk.values)
            heard = Counter(o if o[0] == "failed" else ("delivered", o[2], o[3]) for o in bulk.told)
            if all(o[0] == "failed" or o[3] != -1 for o in bulk.told):
                assert heard == told


def _future(record: Observed) -> Any:
    assert record.future is not None
    return record.future


@settings(
    max_examples=EXAMPLES.get(settings.get_current_profile_name(), settings().max_examples),
)
@given(
    st.lists(_records, min_size=1, max_size=12),
    st.lists(_steps, max_size=20),
    _ends,
)
def test_every_observer_hears_once_and_what_the_log_says(
    records: list[Any], steps: list[Any], end: str
) -> None:
    """Whatever becomes of the batches, and whenever an observer comes."""
    play = Play()
    try:
        for record in records:
            play.send(record)
        play.bench.turn()
        play.bench.turn()
        for step in steps:
            play.step(*step)
        play.end(end)
        play.check()
    finally:
        play.observers.close()
