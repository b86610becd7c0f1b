"""`send_arrow`: every layout, slices and chunks, rejected tables, and where rows go."""

import datetime as dt
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from kprod.errors import (
    BufferTimeout,
    ClosedError,
    KprodError,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from kprod.model import RecordMetadata
from kprod.producer.receipt import SendReceipt
from kprod.producer.send_support import stoppable
from tests.oracle import record_v2
from tests.producer.bench import TOPIC, Bench, deliver

Rows = list[record_v2.DecodedRecord]


def contents(rows: Rows) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values alone."""
    return [(row.key, row.value) for row in rows]


WORDS = [b"", b"a", None, b"twelve bytes", b"more than twelve bytes", b"a", None, b"\xc3\xa9"]
LAYOUTS = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.uint64(), pa.large_string()),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_layout_is_sent_as_it_is(layout: pa.DataType) -> None:
    """Values and keys of all kinds of strings and binaries, whole, sliced and in chunks."""
    column = pa.array(WORDS, pa.binary())
    if pa.types.is_dictionary(layout):
        column = column.cast(layout.value_type).dictionary_encode().cast(layout)
    else:
        column = column.cast(layout)
    whole = pa.table({"value": column, "key": column})
    for table, words in [
        (whole, WORDS),
        (whole.slice(3, 4), WORDS[3:7]),
        (whole.to_batches()[0].slice(2), WORDS[2:]),
        (pa.concat_tables([whole.slice(1, 2), whole.slice(5)]), WORDS[1:3] + WORDS[5:]),
        (whole.slice(0, 0), []),
    ]:
        bench = Bench()
        receipt = bench.producer.send_arrow(TOPIC, table, key="key")
        log = deliver(bench)
        assert receipt.done()
        assert sorted(map(str, itertools.chain(*map(contents, log)))) == sorted(
            str((word, word)) for word in words
        )


def test_fixed_size_and_null_columns() -> None:
    """Fixed-size binary of any width, and a column of nothing but nulls."""
    for width in (0, 3):
        bench = Bench()
        words = [b"x" * width, None, b"y" * width]
        table = pa.table({"value": pa.array(words, pa.binary(width)), "key": pa.nulls(3)})
        bench.producer.send_arrow(TOPIC, table.slice(1), key="key")
        log = list(itertools.chain(*deliver(bench)))
        assert contents(log) == [(None, None), (None, words[2])]


def test_every_column_goes_with_its_row() -> None:
    """Keys, headers, partitions and timestamps; nulls are as if there were no column."""
    bench = Bench()
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    stamp = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    table = pa.table(
        {
            "v": [b"a", b"b", None],
            "k": ["x", None, "z"],
            "h": pa.array(
                [[("é", b"1"), ("é", None)], None, []],
                pa.list_(header),
            ),
            "p": pa.array([2, None, 1], pa.uint8()),
            "t": pa.array([stamp, stamp, None], pa.timestamp("us", "UTC")),
        }
    )
    bench.clock.set_wall(77)
    before = bench.head.sticky
    receipt = bench.producer.send_arrow(
        TOPIC, table, value="v", key="k", headers="h", partition="p", timestamp="t"
    )
    log = deliver(bench)
    log_append_time_ms = int(stamp.timestamp() * 1000)
    (first,) = log[2] if before != 2 else log[2][:1]
    assert first[1:] == (log_append_time_ms, b"x", b"a", (("é", b"1"), ("é", None)))
    assert (log_append_time_ms, None, b"b", ()) in [row[1:] for row in log[before]]
    assert (77, b"z", None, ()) in [row[1:] for row in log[1]]
    assert sum(part.count for part in receipt.result(0).values()) == 3


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (pa.timestamp("s"), 1_700_000_000),
        (pa.timestamp("ms"), 1_700_000_000_123),
        (pa.timestamp("us", "Europe/Berlin"), 1_700_000_000_123_999),
        (pa.timestamp("ns"), 1_700_000_000_123_999_999),
        (pa.date64(), 1_699_920_000_000),
        (pa.int64(), 1_700_000_000_123),
        (pa.int32(), 123),
        (pa.uint64(), 5),
    ],
    ids=str,
)
def test_timestamps_of_any_unit(kind: pa.DataType, number: int) -> None:
    """They become milliseconds, rounded down."""
    wanted = {"s": number * 1000, "us": number // 1000, "ns": number // 1_000_000}
    bench = Bench()
    storage = pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) else kind
    times = pa.array([number], storage)
    table = pa.table({"value": [b"v"], "t": times if storage == kind else times.view(kind)})
    bench.producer.send_arrow(TOPIC, table, timestamp="t")
    (row,) = itertools.chain(*deliver(bench))
    assert row.timestamp_ms == wanted.get(getattr(kind, "unit", "ms"), number)


def test_headers_may_be_maps_and_large_lists_of_views() -> None:
    """A map of string to binary, and a large list of structs in any order of their fields."""
    mapped = pa.array([[("a", b"1")], [], [("b", None), ("c", b"")]], pa.map_("string", "binary"))
    listed = pa.array(
        [
            [{"value": b"1", "key": "a"}],
            [],
            [{"value": None, "key": "b"}, {"key": "c", "value": b""}],
        ],
        pa.large_list(pa.struct([("value", pa.binary_view()), ("key", pa.string_view())])),
    )
    for column in (mapped, listed):
        bench = Bench()
        table = pa.table({"value": [b"1", b"2", b"3"], "h": column}).slice(1)
        bench.producer.send_arrow(TOPIC, table, headers="h")
        rows = list(itertools.chain(*deliver(bench)))
        assert [row.headers for row in rows] == [(), (("b", None), ("c", b""))]


def test_partitions_are_those_of_send() -> None:
    """A key's hash decides, an empty key's too; rows of one partition keep their order."""
    keys = [None if n % 7 == 0 else b"k%d" % (n % 40) * (n % 5) for n in range(20_000)]
    values = [b"%d" % n for n in range(20_000)]
    bench = Bench(batch_size=5000)
    receipt = bench.producer.send_arrow(TOPIC, pa.table({"value": values, "key": keys}), key="key")
    log = deliver(bench)
    other = Bench(batch_size=5000)
    for key, value in zip(keys, values, strict=True):
        if key is not None:
            other.producer.send(TOPIC, value, key)
    sent = deliver(other)
    for mine, theirs in zip(log, sent, strict=True):
        assert [row for row in contents(mine) if row[0] is not None] == contents(theirs)
    assert sorted(row.value or b"" for row in itertools.chain(*log)) == sorted(values)
    assert sum(part.count for part in receipt.result(0).values()) == 20_000


@pytest.mark.parametrize("partitioner", ["murmur2", "consistent_random", "round_robin"])
def test_rows_with_and_without_keys_keep_their_order(partitioner: str) -> None:
    """In each partition, whichever way they came there."""
    bench = Bench(partitioner=partitioner, batch_size=3000)
    keys = [None if n % 2 else b"k%d" % (n % 6) for n in range(9000)]
    values = [b"%06d" % n for n in range(9000)]
    bench.producer.send_arrow(TOPIC, pa.table({"value": values, "key": keys}), key="key")
    log = deliver(bench)
    assert sum(map(len, log)) == 9000
    for rows in log:
        assert [row.value or b"" for row in rows] == sorted(row.value or b"" for row in rows)


@pytest.mark.parametrize("partitioner", ["consistent", "consistent_random", "fnv1a_random"])
def test_other_partitioners_too(partitioner: str) -> None:
    """Librdkafka's names: which keys decide, and how."""
    keys = [b"k%d" % n for n in range(50)] + [b""]
    bench, other = Bench(partitioner=partitioner), Bench(partitioner=partitioner)
    bench.producer.send_arrow(TOPIC, pa.table({"value": keys, "key": keys}), key="key")
    for key in keys:
        other.producer.send(TOPIC, key, key)
    hashed = [set(contents(rows)) - {(b"", b"")} for rows in deliver(bench)]
    assert hashed == [set(contents(rows)) - {(b"", b"")} for rows in deliver(other)]


def test_turns_continue_from_send() -> None:
    """Round robin counts rows and single records alike."""
    bench = Bench(partitioner="round_robin")
    bench.producer.send(TOPIC, b"0")
    bench.producer.send_arrow(TOPIC, pa.table({"value": [b"1", b"2", b"3"]}))
    bench.producer.send(TOPIC, b"4")
    values = [[row.value for row in rows] for rows in deliver(bench)]
    assert values == [[b"0", b"3"], [b"1", b"4"], [b"2"]]


def test_a_turn_that_is_newer_than_the_call_is_another_partition_s() -> None:
    """The topic may grow in the middle of a call, and turns with it: no row goes past the slots."""
    bench = Bench(partitioner="round_robin")
    bench.head.turns = [0, 1_000_000, 1]
    receipt = bench.producer.send_arrow(TOPIC, pa.table({"value": [b"v"] * 9}))
    assert [len(rows) for rows in deliver(bench)] == [3, 3, 3]
    assert receipt.failed_count == 0


def test_records_sent_around_columns_keep_their_place() -> None:
    """Columns go behind records sent before them, and before records sent after."""
    bench = Bench()
    bench.producer.send(TOPIC, b"before", partition=1)
    table = pa.table({"value": [b"1", b"2"], "p": [1, 1]})
    receipt = bench.producer.send_arrow(TOPIC, table, partition="p")
    bench.producer.send(TOPIC, b"after", partition=1)
    assert [row.value for row in deliver(bench)[1]] == [b"before", b"1", b"2", b"after"]
    assert receipt.result(0) == {1: (2, ((1, 2),))}


def test_a_rejected_row_is_named_and_the_others_are_sent() -> None:
    """Each has its own error at its own index, over chunks too."""
    bench = Bench(max_request_size=2000, batch_size=1000)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "value": [b"0", b"x" * 3000, b"2", b"3", b"4", b"5", b"6"],
            "p": [0, 0, 3, -1, 0, 0, 0],
            "t": [1, 1, 1, 1, -5, 1, 1],
            "h": pa.array([[], [], [], [], [], [(None, b"")], [("k", None)]], pa.list_(header)),
        }
    )
    receipt = bench.producer.send_arrow(
        TOPIC,
        pa.concat_tables([table, table]),
        partition="p",
        timestamp="t",
        headers="h",
    )
    log = deliver(bench)
    failures = receipt.failures()
    assert [failure.index for failure in failures] == [1, 2, 3, 4, 5, 8, 9, 10, 11, 12]
    kinds = [RecordTooLarge, UnknownPartition, ValueError, ValueError, ValueError]
    assert [type(failure.error) for failure in failures] == kinds * 2
    assert [row.value for row in log[0]] == [b"0", b"6", b"0", b"6"]
    assert receipt.delivered() == {0: (4, ((0, 3),))}


def test_a_row_that_is_null_as_a_whole_is_no_record() -> None:
    """A struct array may have such rows."""
    rows = pa.array([{"value": b"a"}, None, {"value": b"c"}], pa.struct([("value", pa.binary())]))
    bench = Bench()
    receipt = bench.producer.send_arrow(TOPIC, rows)
    assert [row.value for row in itertools.chain(*deliver(bench))] == [b"a", b"c"]
    ((index, error),) = receipt.failures()
    assert index == 1
    assert "row itself is null" in str(error)


@pytest.mark.parametrize(
    ("column", "columns", "error", "text"),
    [
        (pa.array([1]), {}, TypeError, r"'value' has type int64 \('l'\).*to_json"),
        (pa.array([1.5]), {}, TypeError, "float64"),
        (pa.array([{"a": 1}]), {}, TypeError, r"struct \('\+s'\).*Avro"),
        (pa.array([[b"a"]]), {}, TypeError, "list"),
        (pa.array([b"a"]), {"value": "v"}, ValueError, "no column of that name among 'value'"),
        (pa.array([b"a"]), {"key": "k"}, ValueError, "key='k'"),
        (pa.array([b"a"]), {"partition": "value"}, TypeError, "a partition is an integer"),
        (pa.array([b"a"]), {"timestamp": "value"}, TypeError, "a timestamp is a timestamp or"),
        (pa.array([b"a"]), {"headers": "value"}, TypeError, "headers are a list of structs"),
        (pa.array([1]).dictionary_encode(), {}, TypeError, "int64"),
        (pa.array([True]), {}, TypeError, "bool"),
        (pa.array([dt.timedelta(1)]), {}, TypeError, "type"),
    ],
)
def test_a_schema_fault_is_rejected_before_anything_is_sent(
    column: pa.Array, columns: dict[str, str], error: type[Exception], text: str
) -> None:
    """The text names the column, its type and the remedy."""
    bench = Bench()
    with pytest.raises(error, match=text):
        bench.producer.send_arrow(TOPIC, pa.table({"value": column}), **columns)
    assert not any(deliver(bench))


def test_an_object_that_is_no_table_is_rejected() -> None:
    """Objects without the interface, arrays without names, two columns of one name."""
    bench = Bench()
    with pytest.raises(TypeError, match=r"__arrow_c_stream__.*got list"):
        bench.producer.send_arrow(TOPIC, [b"a"])
    with pytest.raises(TypeError, match="table or a record batch"):
        bench.producer.send_arrow(TOPIC, pa.array([b"a"]))
    doubled = pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(ValueError, match="2 columns of that name"):
        bench.producer.send_arrow(TOPIC, doubled)


def test_a_stream_is_read_one_array_at_a_time() -> None:
    """Rows are handed over before the next array is asked for; a fault ends the call."""
    bench = Bench()
    schema = pa.schema([("value", pa.binary())])
    seen: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for index in range(3):
            seen.append(sum(count for _, count in bench.accumulator.incomplete()))
            yield pa.record_batch({"value": [b"%d" % index] * 10}, schema)
        raise LookupError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(SerializationError, match="the source is gone") as caught:
        bench.producer.send_arrow(TOPIC, reader)
    assert seen == [0, 10, 20]
    deliver(bench)
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert sum(part.count for part in receipt.result(0).values()) == 30


def test_polars_and_duckdb_are_sent_without_pyarrow() -> None:
    """Their tables and query results have the interface themselves."""
    frame = pl.DataFrame({"value": ["x" * n for n in range(30)], "p": [n % 3 for n in range(30)]})
    bench = Bench()
    bench.producer.send_arrow(TOPIC, frame, partition="p")
    log = deliver(bench)
    assert [row.value for row in log[1]] == [b"x" * n for n in range(1, 30, 3)]
    bench = Bench()
    with duckdb.connect() as connection:
        relation = connection.sql("select 'v' || i as value, i % 3 as p from range(5000) t(i)")
        bench.producer.send_arrow(TOPIC, relation, partition="p")
    log = deliver(bench)
    assert [row.value for row in log[2]] == [b"v%d" % n for n in range(2, 5000, 3)]


def test_a_small_buffer_is_handed_over_before_it_is_waited_for() -> None:
    """No memory within `max_block_ms` ends the call; the encoded rows are sent, in order."""
    bench = Bench(buffer_memory=128 * 1024, batch_size=40_000)
    keys = [b"k%d" % (n % 9) for n in range(3000)]
    values = [b"%04d" % n + b"x" * 200 for n in range(3000)]
    with pytest.raises(BufferTimeout) as caught:
        bench.producer.send_arrow(TOPIC, pa.table({"value": values, "key": keys}), key="key")
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert 300 < receipt.record_count < 600
    sent = sorted(row.value or b"" for row in itertools.chain(*deliver(bench)))
    assert sent == values[: receipt.record_count]
    assert bench.pool.lent_bytes == 0


def test_rows_larger_than_a_batch_are_batches_of_their_own() -> None:
    """As in `send`: `batch_size` bounds only batches of several records."""
    bench = Bench(batch_size=1000)
    values = [b"%d" % n * size for n, size in enumerate([10, 50_000, 10, 2_000, 900, 900, 40_000])]
    table = pa.table({"value": values, "p": [0] * len(values)})
    receipt = bench.producer.send_arrow(TOPIC, table, partition="p")
    assert [row.value for row in deliver(bench)[0]] == values
    assert receipt.result(0)[0].count == len(values)


@pytest.mark.parametrize(("kind", "code"), [(pa.binary(), "i"), (pa.large_string(), "q")])
def test_of_a_long_dictionary_only_what_rows_refer_to_is_looked_at(
    kind: pa.DataType, code: str
) -> None:
    """Each of many arrays brings it again, and may refer to a few of its values."""
    offsets = struct.pack(f"<6{code}", 0, 1, 2, 9, 1, 5)  # the third and the fourth are broken
    dictionary = pa.Array.from_buffers(
        kind, 5, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcde")]
    )

    def table(*indices: int | None) -> pa.RecordBatch:
        column = pa.DictionaryArray.from_arrays(
            pa.array(indices, pa.int32()), dictionary, safe=False
        )
        return pa.record_batch({"value": column, "p": [1] * len(indices)})

    bench = Bench()
    bench.producer.send_arrow(TOPIC, table(1, None, 4, 0), partition="p")
    assert [row.value for row in deliver(bench)[1]] == [b"b", None, b"bcde", b"a"]
    for broken in ((1, 2), (3,), (0, 0, 0, 0, 0)):
        with pytest.raises(ValueError, match=r"a broken Arrow array: .*'value'"):
            bench.producer.send_arrow(TOPIC, table(*broken), partition="p")
    with pytest.raises(ValueError, match="refers past the 5 entries"):
        bench.producer.send_arrow(TOPIC, table(5), partition="p")


def test_a_closed_producer_settles_the_receipt() -> None:
    """Closing fails unacknowledged rows, and rejects further calls."""
    bench = Bench()
    table = pa.table({"value": [b"a", b"b"]})
    receipt = bench.producer.send_arrow(TOPIC, table)
    bench.producer.close(0)
    assert [type(failure.error) for failure in receipt.failures()] == [ClosedError] * 2
    with pytest.raises(ClosedError):
        bench.producer.send_arrow(TOPIC, table)
    assert bench.pool.lent_bytes == 0


def test_a_producer_closed_by_its_source_settles_records_on_their_way() -> None:
    """Closed between two arrays: the call ends with the producer's rejection."""
    bench = Bench()
    schema = pa.schema([("value", pa.binary())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"a"]}, schema)
        bench.producer.close(0)
        yield pa.record_batch({"value": [b"b"]}, schema)

    with pytest.raises(ClosedError) as caught:
        bench.producer.send_arrow(TOPIC, pa.RecordBatchReader.from_batches(schema, batches()))
    receipt = caught.value.receipt  # type: ignore[attr-defined]
    assert receipt.done()
    assert [failure.index for failure in receipt.failures()] == [0]
    assert bench.pool.lent_bytes == 0


def _closed_on_the_way(bench: Bench, closed_error: Callable[[], KprodError]) -> SendReceipt:
    """The call's error if the producer is closed after its first block of rows."""

    def close() -> None:
        bench.producer.close(0)
        bench.producer._kprod.path.closed_error = closed_error

    table = pa.table({"value": [b"v"] * 10_000})
    with pytest.raises((ClosedError, KeyboardInterrupt)) as caught, stoppable(close):
        bench.producer.send_arrow(TOPIC, table)
    receipt: SendReceipt = caught.value.receipt  # type: ignore[attr-defined]
    return receipt


def test_rows_that_find_the_producer_closed_are_counted_as_failed() -> None:
    """They were taken, so metrics have them like those that closing failed."""
    bench = Bench()
    receipt = _closed_on_the_way(bench, lambda: ClosedError("closed"))
    assert receipt.done()
    assert receipt.record_count == receipt.failed_count > 0
    metrics = bench.producer.metrics()
    for group in ("producer-metrics", f"producer-topic-metrics.{TOPIC}"):
        assert metrics[group]["record-error-total"] == receipt.failed_count
    assert bench.pool.lent_bytes == 0


def test_a_signal_while_rows_are_rejected_loses_none_of_them() -> None:
    """They are rejected again; the exception out of the handler ends the call."""
    bench = Bench()
    rejections: list[BaseException] = [ClosedError("1"), KeyboardInterrupt(), ClosedError("2")]

    def reject() -> KprodError:
        closed_error = rejections.pop(0)
        if isinstance(closed_error, ClosedError):
            return closed_error
        raise closed_error

    receipt = _closed_on_the_way(bench, reject)
    assert receipt.done()
    assert receipt.record_count == receipt.failed_count > 0
    assert {str(failure.error) for failure in receipt.failures()} == {"2"}
    assert rejections == []
    assert bench.pool.lent_bytes == 0


def test_interceptors_and_partitioners_see_each_row() -> None:
    """They are the application's, so they are asked, row by row."""

    class Marking:
        """Marks values."""

        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value + b"!")

        def on_acknowledgement(self, metadata: RecordMetadata | None, _: KprodError | None) -> None:
            assert metadata is not None

        def close(self) -> None:
            """Nothing to close."""

    def choose(key: bytes | None, everyone: Any, _: Any) -> int:
        return int(key or b"0") if key != b"9" else len(everyone)

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "value": ["a", "b", "c", "d"],
            "key": ["2", "9", None, "1"],
            "h": pa.array([[("k", b"v")], None, [], [(None, b"")]], pa.list_(header)),
            "t": [5, None, 7, 8],
            "p": pa.array([None, None, 1, None], pa.int16()),
        }
    )
    bench = Bench(interceptors=[Marking()], partitioner=choose)
    receipt = bench.producer.send_arrow(
        TOPIC, table, key="key", headers="h", timestamp="t", partition="p"
    )
    log = deliver(bench)
    assert [row[1:] for row in log[2]] == [(5, b"2", b"a!", (("k", b"v"),))]
    assert [row[1:] for row in log[1]] == [(7, None, b"c!", ())]
    assert [failure.index for failure in receipt.failures()] == [1, 3]


def test_an_empty_open_batch_does_not_block_the_columns() -> None:
    """A batch that somebody has opened and not yet appended to stays behind them, open."""
    bench = Bench()
    queue = bench.head.queues[1]
    chain = bench.pool.try_chain()
    assert chain is not None
    assert queue.open(bench.producer._kprod.support.make_batch(queue, chain))
    table = pa.table({"value": [b"1", b"2"], "p": [1, 1]})
    bench.producer.send_arrow(TOPIC, table, partition="p")
    bench.producer.send(TOPIC, b"3", partition=1)
    assert [row.value for row in deliver(bench)[1]] == [b"1", b"2", b"3"]
