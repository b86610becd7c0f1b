"""Events during a bulk send: growing topics, Ctrl-C, timeouts, waits."""

import ctypes
import itertools
from collections.abc import Iterator
from typing import Any, Self

import pyarrow as pa
import pytest

from kprod.errors import UnknownPartition
from kprod.producer.send_support import stoppable
from tests.oracle import record_v2
from tests.producer.bench import TOPIC, Bench, deliver


def _values(bench: Bench) -> list[bytes]:
    return [row.value or b"" for row in itertools.chain(*deliver(bench))]


def test_a_topic_that_grows_in_the_middle_of_a_block() -> None:
    """Its newest partition may be the sticky one before the call has a slot for it."""
    bench = Bench(batch_size=2000)
    count = 500

    def roll(routes: Any) -> None:
        bench.lead(*[0] * count)
        bench.accumulator.topic_queues(TOPIC, count)
        routes.sticky = count - 1

    bench.producer._kprod.support.roll_sticky = roll  # type: ignore[method-assign]
    values = [b"%04d" % n * 25 for n in range(200)]
    receipt = bench.producer.send_arrow(TOPIC, pa.table({"value": values}))
    assert sorted(_values(bench)) == values
    assert receipt.result(0)[count - 1].count > 100


def test_interrupted_again_while_it_hands_over_it_hands_over_all() -> None:
    """Each Ctrl-C ends the call, and no row that was dealt with is lost."""
    bench = Bench()
    values = [b"%04d" % n for n in range(9000)]
    table = pa.table({"value": values, "p": [n % 3 for n in range(9000)]})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    bench.producer._kprod.support.check_signals = interrupt  # type: ignore[method-assign]
    bench.producer._kprod.support.roll_sticky = interrupt  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt) as caught:
        bench.producer.send_arrow(TOPIC, table, partition="p")
    del bench.producer._kprod.support.roll_sticky
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert 0 < receipt.record_count < len(values)
    assert sorted(_values(bench)) == values[: receipt.record_count]
    assert receipt.done()
    assert bench.pool.lent_bytes == 0


def test_a_batch_of_columns_is_as_old_as_its_place_in_the_queue() -> None:
    """Else its deadline would be the earlier one, and would take those ahead of it along."""
    bench = Bench(linger_ms=0, delivery_timeout_ms=60_000, request_timeout_ms=1000)
    bench.client.room = 0
    sent: list[Any] = []

    def check_signals() -> None:
        if not sent:
            bench.clock.advance(20_000)
            sent.append(bench.producer.send(TOPIC, b"ahead", partition=0))

    bench.producer._kprod.support.check_signals = check_signals  # type: ignore[method-assign]
    bench.turn()
    table = pa.table({"value": [b"row"] * 10_000, "p": [0] * 10_000})
    receipt = bench.producer.send_arrow(TOPIC, table, partition="p")
    bench.turn()
    bench.turn(59_900)
    assert not sent[0].done()
    assert not receipt.done()
    bench.turn(200)
    assert sent[0].done()
    assert receipt.failed_count == 10_000


def test_nothing_is_held_back_while_a_partition_is_awaited() -> None:
    """The wait may be long, and needs none of the rows before it."""
    bench = Bench()
    lengths = []

    def wait(*_: object) -> None:
        lengths.append([len(queue.batches) for queue in bench.head.queues])
        raise UnknownPartition("not there")

    bench.producer._kprod.support.await_partition = wait  # type: ignore[method-assign, assignment]
    table = pa.table({"value": [b"a", b"b", b"c", b"d"], "p": [0, 1, 9, 0]})
    receipt = bench.producer.send_arrow(TOPIC, table, partition="p")
    assert lengths == [[1, 1, 0]]
    assert sorted(_values(bench)) == [b"a", b"b", b"d"]
    assert [failure.index for failure in receipt.failures()] == [2]


def test_rejected_records_too_let_others_have_a_turn() -> None:
    """A list of nothing but wrong values can be interrupted, and stops no other thread."""
    bench = Bench()
    turns = []
    bench.producer._kprod.support.check_signals = lambda: turns.append(1)  # type: ignore[method-assign]
    receipt = bench.producer.send_many(TOPIC, ["text"] * 20_000)
    assert receipt.failed_count == 20_000
    assert len(turns) == 4


def test_a_slow_source_is_stopped_at_its_next_record() -> None:
    """Not some thousand records later, each of which would be sent."""
    bench = Bench()
    is_wanted = True

    def values() -> Iterator[bytes]:
        nonlocal is_wanted
        for number in range(100):
            bench.clock.advance(5)
            is_wanted = number < 3
            yield b"%d" % number

    def check() -> None:
        if not is_wanted:
            raise KeyboardInterrupt

    with stoppable(check), pytest.raises(KeyboardInterrupt) as caught:
        bench.producer.send_many(TOPIC, values())
    assert caught.value.receipt.record_count == 4  # type: ignore[attr-defined]
    assert sorted(_values(bench)) == [b"0", b"1", b"2", b"3"]


def test_an_unsigned_timestamp_past_63_bits_is_rejected() -> None:
    """As `send` does; it is not made the last instant that there is."""
    bench = Bench()
    stamps = pa.array([2**63 - 2, 2**63, 2**64 - 1], pa.uint64())
    table = pa.table({"value": [b"a", b"b", b"c"], "t": stamps})
    receipt = bench.producer.send_arrow(TOPIC, table, timestamp="t")
    (row,) = itertools.chain(*deliver(bench))
    assert row.timestamp_ms == 2**63 - 2
    assert [failure.index for failure in receipt.failures()] == [1, 2]


class _Schema(ctypes.Structure):
    """An Arrow schema's first fields."""


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
]


class _Torn:
    """A record batch whose schema says more than is there, at some depth; its end mends it."""

    def __init__(self, batch: pa.RecordBatch, path: list[int]) -> None:
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype = ctypes.c_void_p
        pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self._capsules = batch.__arrow_c_array__()
        schema = _Schema.from_address(pointer(self._capsules[0], b"arrow_schema"))
        for index in path:
            schema = schema.children[index].contents
        self._schema = schema
        self._whole = ctypes.cast(schema.children, ctypes.c_void_p).value
        self._nothing = (ctypes.POINTER(_Schema) * schema.n_children)()

    def __enter__(self) -> Self:
        self._point_to(ctypes.addressof(self._nothing))
        return self

    def __exit__(self, *_: object) -> None:
        self._point_to(self._whole)  # releasing it walks its children

    def _point_to(self, address: int | None) -> None:
        kind = ctypes.POINTER(ctypes.POINTER(_Schema))
        self._schema.children = ctypes.cast(ctypes.c_void_p(address), kind)

    def __arrow_c_array__(self, _: object = None) -> object:  # noqa: PLW3201 - Arrow's
        return self._capsules


@pytest.mark.parametrize("path", [[], [1], [1, 0]])
def test_a_schema_without_what_it_promises_is_rejected(path: list[int]) -> None:
    """The table's own columns, a list's items, and what these are made of."""
    bench = Bench()
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch({"value": [b"a"], "h": pa.array([[]], pa.list_(header))})
    with _Torn(batch, path) as torn, pytest.raises(ValueError, match="broken Arrow schema"):
        bench.producer.send_arrow(TOPIC, torn, headers="h")


def test_rows_that_wait_for_memory_lie_in_few_batches() -> None:
    """Each wait is for the memory of all partitions; one partition's would be spliced at once."""
    leaders = (0, 1, 2) * 4
    bench = Bench(leaders, buffer_memory=1 << 20, batch_size=100_000)
    batch_count, waits, values = 0, 0, list[bytes]()

    def take_one() -> None:
        nonlocal batch_count
        bench.turn()
        if bench.client.in_flight:
            carried = bench.client.in_flight[0]
            batch_count += len(carried.batches)
            for batch in carried.batches.values():
                for one in record_v2.decode_batches(batch):
                    values.extend(record.value or b"" for record in one.records)
            bench.answer(carried)

    def wait_for_memory(waiter: Any, _: int) -> None:
        nonlocal waits
        waits += 1
        bench.pool._on_shortage()  # as the pool does before it sleeps
        while not waiter.settled:
            take_one()

    support = bench.producer._kprod.support
    support.wait_for_memory = wait_for_memory  # type: ignore[method-assign, assignment]
    sent = [b"%05d" % number * 60 for number in range(10_000)]
    partitions = [number % len(leaders) for number in range(len(sent))]
    table = pa.table({"value": sent, "p": partitions})
    bench.producer.send_arrow(TOPIC, table, partition="p")
    while bench.accumulator.incomplete():
        bench.clock.advance(10)
        take_one()
    bench.turn()
    assert sorted(values) == sent
    assert waits > 1
    assert batch_count < 300  # of 10 KiB at least, on average
