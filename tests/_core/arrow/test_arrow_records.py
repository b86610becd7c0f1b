"""Records as Arrow columns: equal to the records taken one by one, within the limits."""

import random
import tracemalloc
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from kprod._core.arrow.arrow_records import ArrowColumns
from kprod._core.record.record_block import RecordBlock
from kprod.errors import CorruptRecord
from kprod.record.blocks import ConsumerRecord, PartitionStamp
from tests._core.batches import GOLDEN_PLAIN, NULL, START, encoded_record, sealed
from tests._core.record.odd_records import MS, odd_log
from tests.oracle import message_set, record_v2

STAMP = PartitionStamp("orders", 3)
LARGE = 1 << 40


def batch(base_offset: int, count: int, *, size: int = 2, codec: int = 0) -> bytes:
    """A batch of records with values of one size."""
    rows: list[record_v2.RecordInput] = [(MS, None, bytes(size), [])] * count
    return record_v2.encode_batch(rows, base_offset=base_offset, codec=codec)


def table_of(columns: ArrowColumns) -> pa.RecordBatch:
    """The rows so far, checked in depth by pyarrow."""
    table = pa.record_batch(columns)
    table.validate(full=True)
    return table


def as_row(record: ConsumerRecord) -> dict[str, Any]:
    """The column values expected for a record."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp_ms == -1 else record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
        "leader_epoch": record.leader_epoch,
        "timestamp_type": record.timestamp_type,
    }


def rows_of(table: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows, with timestamps as numbers."""
    place = table.schema.get_field_index("timestamp")
    numbers = table.column(place).cast(pa.int64())
    rows: list[dict[str, Any]] = pa.table(table).set_column(place, "timestamp", numbers).to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_the_records(seed: int) -> None:
    """Whatever the formats and codecs, rows say what records say, however they are cut."""
    rng = random.Random(seed)
    content = odd_log(rng)
    expected = [as_row(record) for record in RecordBlock(content, STAMP, 0).take(1 << 20)]
    block = RecordBlock(content, STAMP, 0)
    columns = ArrowColumns(leader_epoch=True, timestamp_type=True)
    found = []
    while not block.exhausted:
        if rng.random() < 0.3:
            found += [as_row(record) for record in block.take(rng.randrange(4))]
        columns.append(block, rng.choice((1, 7, 100)), rng.choice((0, 100, 10_000)))
        found += rows_of(table_of(columns))
        assert columns.row_count == 0
    assert found == expected
    assert block.next_offset == expected[-1]["offset"] + 1


def test_schema() -> None:
    """Spark's names, plain types."""
    assert table_of(ArrowColumns()).schema == pa.schema(
        [
            pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", "UTC")),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field(
                "headers",
                pa.list_(
                    pa.field(
                        "item",
                        pa.struct(
                            [pa.field("key", pa.string(), nullable=False), ("value", pa.binary())]
                        ),
                        nullable=False,
                    )
                ),
                nullable=False,
            ),
        ]
    )
    more = table_of(ArrowColumns(leader_epoch=True, timestamp_type=True)).schema
    assert more.names[-2:] == ["leader_epoch", "timestamp_type"]
    assert more.types[-2:] == [pa.int32(), pa.int8()]
    only_type = table_of(ArrowColumns(timestamp_type=True)).schema
    assert only_type.names[-1] == "timestamp_type"


def test_several_partitions_in_one_table() -> None:
    """Topics are in a dictionary; partitions follow each other in the order of the calls."""
    columns = ArrowColumns()
    for topic, partition in (("a", 0), ("b", 5), ("a", 1)):
        assert columns.append(
            RecordBlock(batch(0, 2), PartitionStamp(topic, partition), 0), 9, LARGE
        )
    table = table_of(columns)
    assert table.column("topic").dictionary.to_pylist() == ["a", "b"]
    assert table.column("topic").to_pylist() == ["a", "a", "b", "b", "a", "a"]
    assert table.column("partition").to_pylist() == [0, 0, 5, 5, 1, 1]
    # The next table has a dictionary of its own.
    columns.append(RecordBlock(batch(0, 1), PartitionStamp("c", 0), 0), 9, LARGE)
    assert table_of(columns).column("topic").dictionary.to_pylist() == ["c"]
    assert table.column("offset").to_pylist() == [0, 1] * 3


def test_limits() -> None:
    """Rows and bytes; the first row of a table is taken whatever its size."""
    block = RecordBlock(batch(0, 5, size=100, codec=1) + batch(5, 5, size=100), STAMP, 0)
    columns = ArrowColumns()
    assert columns.append(block, 0, LARGE) == 0
    assert columns.append(block, 7, LARGE) == 7
    assert (block.next_offset, columns.row_count, columns.content_bytes) == (7, 7, 700)
    assert columns.append(block, 9, 199) == 1
    assert columns.append(block, 9, 99) == 0
    assert table_of(columns).num_rows == 8
    assert columns.append(block, 9, 0) == 1
    assert columns.append(block, 9, 100) == 1
    assert block.exhausted
    assert columns.append(block, 9, 100) == 0


def test_limits_of_messages() -> None:
    """The old formats keep them, too."""
    old: list[message_set.RecordInput] = [(index, MS, None, bytes(100)) for index in range(4)]
    block = RecordBlock(message_set.encode(old, magic=1, codec=1), STAMP, 0)
    columns = ArrowColumns()
    assert columns.append(block, 9, 250) == 2
    assert columns.append(block, 9, 50) == 0
    assert columns.append(block, 1, 250) == 1
    assert table_of(columns).column("offset").to_pylist() == [0, 1, 2]
    assert [record.offset for record in block.take(9)] == [3]


def test_corrupt_batches() -> None:
    """The rows before come first, then the error with its place, and it comes again."""
    bad = bytearray(batch(5, 3))
    bad[-1] ^= 1
    block = RecordBlock(batch(0, 5) + bytes(bad), STAMP, 0)
    columns = ArrowColumns()
    assert columns.append(block, 99, LARGE) == 5
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"'orders', partition 3, offset 5: .*checksum"):
            columns.append(block, 99, LARGE)
    assert table_of(columns).num_rows == 5


def test_a_malformed_record() -> None:
    """Within a batch the records before it are rows."""
    lying = bytearray(batch(0, 3, size=20))
    lying[57:61] = (4).to_bytes(4, "big")
    block = RecordBlock(bytes(lying), STAMP, 0, check_crcs=False)
    columns = ArrowColumns()
    assert columns.append(block, 99, LARGE) == 3
    with pytest.raises(CorruptRecord, match=r"partition 3, offset 3: .*record 3 of 4"):
        columns.append(block, 99, LARGE)
    assert table_of(columns).column("offset").to_pylist() == [0, 1, 2]


def test_a_header_key_that_is_no_text() -> None:
    """A column of text cannot have it; as a record it can be taken."""
    records = encoded_record(START + NULL * 2 + b"\x00")
    records += encoded_record(b"\x00\x00\x02" + NULL * 2 + b"\x02\x02\xff\x00")
    block = RecordBlock(sealed(GOLDEN_PLAIN, records, count=2), STAMP, 0)
    columns = ArrowColumns()
    assert columns.append(block, 9, LARGE) == 1
    with pytest.raises(CorruptRecord, match=r"partition 3, offset 1: .*not UTF-8"):
        columns.append(block, 9, LARGE)
    assert [record.offset for record in block.take(9)] == [1]
    assert table_of(columns).num_rows == 1


def test_polars_and_duckdb() -> None:
    """Both take the columns without pyarrow between."""
    columns = ArrowColumns()
    content = record_v2.encode_batch([(MS, b"k", b"v", [("a", b"1")]), (MS, None, None, [])])
    columns.append(RecordBlock(content, STAMP, 0), 9, LARGE)
    frame = pl.DataFrame(pa.record_batch(columns))
    assert frame["value"].to_list() == [b"v", None]
    assert frame["headers"].to_list() == [[{"key": "a", "value": b"1"}], []]
    columns.append(RecordBlock(content, STAMP, 0), 9, LARGE)
    relation = duckdb.from_arrow(pa.table(table_of(columns)))
    found = relation.aggregate("topic, count(*), sum(octet_length(value))")
    assert found.fetchall() == [("orders", 2, 1)]


def test_capsules_that_nobody_imports_are_freed() -> None:
    """Exporting and dropping leaks nothing, and neither does dropping the columns."""
    content = batch(0, 1_000, size=1_000)
    tracemalloc.start()
    try:
        for _ in range(3):
            columns = ArrowColumns()
            columns.append(RecordBlock(content, STAMP, 0), 1_000, LARGE)
            columns.export()
            columns.append(RecordBlock(content, STAMP, 0), 1_000, LARGE)
            del columns
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", range(5))
def test_memory_is_at_most_twice_the_input(codec: int) -> None:
    """Beside the decompressed batch there is one copy, whatever the codec."""
    parts = [batch(index * 1_000, 1_000, size=1_000, codec=codec) for index in range(4)]
    content = b"".join(parts)
    columns = ArrowColumns()
    tracemalloc.start()
    try:
        columns.append(RecordBlock(content, STAMP, 0), 1 << 20, LARGE)
        assert columns.row_count == 4_000
        assert tracemalloc.get_traced_memory()[1] < 2 * 4_000_000
    finally:
        tracemalloc.stop()
