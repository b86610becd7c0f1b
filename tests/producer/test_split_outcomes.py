"""The outcomes of a split batch's records: by every observer, and by the count of `flush`."""

import contextlib
from collections.abc import Callable

import pytest

from kprod._core.outcome.batch_result import BatchResult
from kprod.errors import BrokerError, KprodError
from kprod.model import RecordMetadata
from kprod.producer.future import RecordFuture, as_completed
from tests.oracle import record_v2
from tests.producer.bench import TOPIC, Bench

MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87
COUNT = 8


def _answered(bench: Bench, codes: list[int]) -> None:
    """Answer one request after the other; code 0 appends to the log."""
    for code in codes:
        for _ in range(10):
            if bench.client.in_flight:
                break
            bench.turn(10)
        (carried,) = bench.client.in_flight
        if code:
            bench.reject(carried, code)
        else:
            bench.answer(carried)
        bench.turn()


def _sent(bench: Bench, heard: list[tuple[int, object]]) -> list[RecordFuture]:
    """Send eight records, each with an `on_delivery` that notes its offset or its error."""

    def hear(index: int) -> Callable[[RecordMetadata | None, KprodError | None], None]:
        return lambda metadata, error: heard.append(
            (index, type(error).__name__ if metadata is None else metadata.offset)
        )

    return [
        bench.producer.send(TOPIC, b"%d" % n, partition=0, on_delivery=hear(n))
        for n in range(COUNT)
    ]


def _outcome(future: RecordFuture) -> object:
    error = future.exception(0)
    return future.result(0).offset if error is None else type(error).__name__


def _in_log(bench: Bench) -> list[object]:
    """The outcome that each record must have."""
    log = bench.partitions[0].log
    return [log.index(value) if value in log else "InvalidRecord" for value in _values()]


def _records(batch: bytes) -> list[record_v2.DecodedRecord]:
    (decoded,) = record_v2.decode_batches(batch)
    return list(decoded.records)


def _values() -> list[bytes]:
    return [b"%d" % n for n in range(COUNT)]


def _done_callback(future: RecordFuture) -> None:
    future.add_done_callback(lambda _: None)


def _two_done_callbacks(future: RecordFuture) -> None:
    _done_callback(future)
    _done_callback(future)


SECOND_OBSERVERS: dict[str, Callable[[RecordFuture], object]] = {
    "a done-callback": _done_callback,
    "two done-callbacks": _two_done_callbacks,
    "a view": RecordFuture.to_concurrent,
    "as_completed": lambda future: next(as_completed([future], 0), None),
}


@pytest.mark.parametrize("observe", SECOND_OBSERVERS.values(), ids=SECOND_OBSERVERS)
def test_a_rejected_record_is_never_reported_as_delivered(
    observe: Callable[[RecordFuture], object],
) -> None:
    """Records with two observers, split twice: the last two are rejected, the others delivered."""
    bench = Bench(linger_ms=0)
    bench.partitions[0].log += [b"another client's"] * 100
    heard: list[tuple[int, object]] = []
    futures = _sent(bench, heard)
    for future in futures:
        with contextlib.suppress(KprodError):  # as_completed waits no time; its observer stays
            observe(future)
    _answered(bench, [MESSAGE_TOO_LARGE, 0, MESSAGE_TOO_LARGE, 0, INVALID_RECORD])
    outcomes = [_outcome(future) for future in futures]
    expected = [*range(100, 106), "InvalidRecord", "InvalidRecord"]
    assert outcomes == expected
    assert _in_log(bench) == expected
    assert heard == list(enumerate(expected))


@pytest.mark.parametrize("rejected", [range(0), range(3), range(3, 100), range(100)])
def test_flush_counts_only_the_records_that_it_covers(rejected: range) -> None:
    """Three records are covered, 97 are appended after that, and then the batch is split."""
    bench = Bench(linger_ms=0)
    values = [b"%02d" % n for n in range(100)]
    for value in values[:3]:
        bench.producer.send(TOPIC, value, partition=0)
    ((result, covered_count),) = bench.accumulator.incomplete()
    for value in values[3:]:
        bench.producer.send(TOPIC, value, partition=0)
    _answered(bench, [MESSAGE_TOO_LARGE])
    counts = [result.failed_count(covered_count)]
    for _ in range(20):
        bench.turn(10)
        for carried in list(bench.client.in_flight):
            here = [record.value for record in _records(carried.batches[0])]
            if len(here) > 3 and here[0] == values[0] and len(rejected) == 3:
                bench.reject(carried, MESSAGE_TOO_LARGE)  # until the covered records are alone
            elif values.index(here[0] or b"") in rejected:
                bench.reject(carried, INVALID_RECORD)
            else:
                bench.answer(carried)
            bench.turn()
            log = bench.partitions[0].log
            counts.append(
                result.failed_count(covered_count) - sum(v not in log for v in values[:3])
            )
    assert counts == [3, *[0] * (len(counts) - 1)]
    lost = [value for value in values if value not in bench.partitions[0].log]
    assert result.failed_count(100) == len(lost)


def test_a_record_s_own_error_counts_only_if_the_record_is_covered() -> None:
    """Neither a later record's, nor one that a broker names and that is not in the batch."""
    result = BatchResult(TOPIC, 0)
    result.complete(
        7, record_errors={1: BrokerError("a"), 5: BrokerError("b"), 900: BrokerError("c")}
    )
    assert [result.failed_count(count) for count in (1, 3, 10)] == [0, 1, 2]
