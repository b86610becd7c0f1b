"""`ArrowFeed`: tables one after the other as one call, whose batches stay open between them."""

import itertools

import pyarrow as pa
import pytest

from kprod.errors import ClosedError
from kprod.producer.bulk import ArrowFeed
from kprod.producer.producer import engine_of
from tests.producer.bench import TOPIC, Bench, deliver

NAMES = {"value": "value", "key": "key"}


def table_of(*numbers: int) -> pa.RecordBatch:
    """A row for each number, which is its key and its value."""
    texts = [b"%d" % number for number in numbers]
    return pa.record_batch({"key": texts, "value": texts})


def feed_of(bench: Bench) -> ArrowFeed:
    """A feed to the bench's topic."""
    return ArrowFeed(engine_of(bench.producer).path, TOPIC, NAMES)


def test_tables_share_batches() -> None:
    """A feed sends what one table of all rows would, in as many batches, and in order."""
    numbers = range(300)
    one, many = Bench(), Bench()
    one.producer.send_arrow(TOPIC, table_of(*numbers), key="key")
    feed = feed_of(many)
    for begin in range(0, 300, 10):
        feed.send(table_of(*numbers[begin : begin + 10]))
    receipt = feed.end()
    assert receipt is not None
    values = [[row.value for row in log] for log in deliver(many)]
    assert values == [[row.value for row in log] for log in deliver(one)]
    assert set(itertools.chain(*values)) == {b"%d" % number for number in numbers}
    assert receipt.done()
    assert sum(offsets.count for offsets in receipt.delivered().values()) == 300
    batch_counts = [
        bench.producer.metrics()["producer-metrics"]["batch-send-total"] for bench in (one, many)
    ]
    assert batch_counts[0] == batch_counts[1] > 0


def test_nothing_is_sent_before_the_end_but_full_batches() -> None:
    """Open batches are the feed's alone; `end` queues them."""
    bench = Bench()
    feed = feed_of(bench)
    feed.send(table_of(1, 2, 3))
    assert deliver(bench) == [[] for _ in bench.partitions]
    feed.end()
    assert sum(map(len, deliver(bench))) == 3


def test_a_feed_without_tables_has_no_receipt() -> None:
    """Nor has one that was ended already."""
    bench = Bench()
    feed = feed_of(bench)
    assert feed.end() is None
    feed.send(table_of(1))
    assert feed.end() is not None
    assert feed.end() is None
    bench.producer.close(0)


def test_rows_that_cannot_be_sent_are_counted_by_their_index_in_the_feed() -> None:
    """Not in their table."""
    bench = Bench(max_request_size=1_000)
    feed = feed_of(bench)
    feed.send(table_of(1, 2))
    feed.send(pa.record_batch({"key": [b"3", b"4"], "value": [b"fits", b"x" * 5_000]}))
    feed.send(table_of(5))
    receipt = feed.end()
    assert receipt is not None
    deliver(bench)
    assert [index for index, _ in receipt.failures()] == [3]
    assert sum(offsets.count for offsets in receipt.delivered().values()) == 4


def test_a_table_without_the_column_ends_nothing() -> None:
    """The rows before it are sent all the same."""
    bench = Bench()
    feed = feed_of(bench)
    feed.send(table_of(1))
    with pytest.raises(ValueError, match="key"):
        feed.send(pa.record_batch({"value": [b"x"]}))
    feed.end()
    assert sum(map(len, deliver(bench))) == 1


def test_a_closed_producer_takes_no_further_table() -> None:
    """And its open batches fail at the end, so that the receipt is done, and memory returns."""
    bench = Bench()
    feed = feed_of(bench)
    feed.send(table_of(1, 2))
    bench.producer.close(0)
    with pytest.raises(ClosedError):
        feed.send(table_of(3))
    receipt = feed.end()
    assert receipt is not None
    assert receipt.done()
    assert receipt.failed_count == 2
