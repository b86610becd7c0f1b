"""Bad records through the consumer: an error with the place, again until a seek; bounded memory."""

import contextlib
import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Generator
from typing import Any

import pytest
import zstandard

from kprod import Consumer
from kprod.compression.limits import DECOMPRESSED_BYTES_MAX, STEP_BYTES
from kprod.errors import CorruptRecord
from kprod.model import TopicPartition
from tests.consumer.reading import scripted_consumer, scripted_poll
from tests.consumer.sealing import ATTRIBUTES, COUNT, RECORDS, sealed
from tests.network.scripted_logs import Log, LogCluster

P0 = TopicPartition("orders", 0)
MB = 1 << 20


def spoiled_log(spoil: Any) -> Log:
    """A good record, a spoiled batch of one record, a good record."""
    log = Log()
    for value in (b"before", b"spoiled", b"after"):
        log.append(value)
    first, last, batch = log.entries[1]
    log.entries[1] = (first, last, spoil(batch))
    return log


def bomb(codec: int, compressed: bytes) -> Any:
    """A spoiler that puts compressed bytes in a batch's place of records."""
    return lambda batch: sealed(
        batch[:ATTRIBUTES] + struct.pack(">h", codec) + batch[23:RECORDS] + compressed
    )


def gzip_bomb() -> bytes:
    """20 MB of zeros in 20 KB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(MB)) for _ in range(20)), packer.flush()])


def zstd_bomb() -> bytes:
    """1 GB of zeros, whose frame does not tell its size."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join([*(packer.compress(bytes(MB)) for _ in range(1_024)), packer.flush()])


def count_of(count: int) -> Any:
    """A spoiler that changes the number of records."""
    return lambda batch: sealed(batch[:COUNT] + struct.pack(">i", count) + batch[RECORDS:])


def replaced(records: bytes) -> Any:
    """A spoiler that replaces the records' bytes."""
    return lambda batch: sealed(batch[:RECORDS] + records)


SPOILED = {
    "gzip bomb": lambda: bomb(1, gzip_bomb()),
    "zstd bomb": lambda: bomb(4, zstd_bomb()),
    "lz4 that is none": lambda: bomb(3, b"\x04\x22\x4d\x18" + bytes(40)),
    "snappy that is none": lambda: bomb(2, b"\xff\xff\xff\xff\x0f" + bytes(40)),
    "unknown codec": lambda: bomb(7, bytes(40)),
    "gzip of half a record": lambda: bomb(1, gzip.compress(b"\x20\x00\x00")),
    "2**31 - 1 records counted": lambda: count_of(2**31 - 1),
    "-1 records counted": lambda: count_of(-1),
    "a record's length of 2 GB": lambda: replaced(b"\xfe\xff\xff\xff\x0f" + bytes(20)),
    "a negative length": lambda: replaced(b"\x01" + bytes(20)),
    "an endless varint": lambda: replaced(b"\xff" * 40),
    "a value's length beyond the record": lambda: replaced(
        b"\x14\x00\x00\x00\x01\xfe\xff\x7f\x00\x00\x00"
    ),
    "2 GB of headers": lambda: replaced(b"\x16\x00\x00\x00\x01\x00\xfe\xff\xff\xff\x0f\x00"),
}


def read_by_poll(consumer: Consumer) -> list[int]:
    """Offsets of the next records."""
    return [it.offset for it in scripted_poll(consumer, 1)]


def read_by_arrow(consumer: Consumer) -> list[int]:
    """Offsets of the next rows."""
    found: list[int] = consumer.poll_arrow(5).column("offset").to_pylist()
    return found


@contextlib.contextmanager
def memory_below(limit_bytes: int) -> Generator[None]:
    """Fail if more is allocated meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit_bytes
    finally:
        tracemalloc.stop()


def check_error(consumer: Consumer, read: Callable[[Consumer], object], offset: int) -> None:
    """An error with the place, again until a seek; the position stays."""
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=rf"orders.*partition 0.*offset {offset}") as raised:
            read(consumer)
        error = raised.value
        assert (error.topic, error.partition, error.offset) == (*P0, offset)
        assert consumer.position(P0) == offset


WAYS = pytest.mark.parametrize("read", [read_by_poll, read_by_arrow])


@pytest.mark.parametrize("name", SPOILED)
@WAYS
def test_spoiled_records(name: str, read: Callable[[Consumer], list[int]]) -> None:
    """Nothing is skipped, and a seek continues; memory is below the bound of decompression.

    The response's own bytes count as well.
    """
    cluster = LogCluster(spoiled_log(SPOILED[name]()))
    with scripted_consumer(cluster, "orders") as consumer:
        assert read(consumer) == [0]
        with memory_below(DECOMPRESSED_BYTES_MAX):
            check_error(consumer, read, 1)
        consumer.seek(P0, 2)
        assert read(consumer) == [2]


@WAYS
def test_a_batch_that_counts_more_than_it_has(read: Callable[[Consumer], list[int]]) -> None:
    """Its whole record is handed out; the missing one is an error."""
    with scripted_consumer(LogCluster(spoiled_log(count_of(2))), "orders") as consumer:
        found: list[int] = []
        while len(found) < 2:
            found += read(consumer)
        assert found == [0, 1]
        check_error(consumer, read, 2)


def test_a_record_larger_than_the_whole_memory_is_read() -> None:
    """Alone; the partition continues after it (KIP-74)."""
    log = Log()
    large = bytes(3 * MB)
    for value in (b"before", large, b"after"):
        log.append(value)
    with scripted_consumer(
        LogCluster(log), "orders", fetch_buffer_memory=64 * 1024, max_partition_fetch_bytes=1_000
    ) as consumer:
        found = scripted_poll(consumer, 3)
    assert [it.value for it in found] == [b"before", large, b"after"]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["random", "documents"])
def test_memory_of_a_compressed_batch(codec: int, kind: str) -> None:
    """Beside the response, reading takes the uncompressed records, whose room grows by an eighth.

    Together that is at most twice the uncompressed size of what compresses at all.
    """
    value = random.Random(1).randbytes(2 * MB) * 2
    if kind == "documents":
        value = b"".join(b'{"id":%d}' % number for number in range(300_000))
    log = Log()
    log.append(b"first")
    log.append(value, codec=codec)
    settings = {"value_type": "memoryview", "max_partition_fetch_bytes": 16 * MB}
    with scripted_consumer(LogCluster(log), "orders", **settings) as consumer:
        while not consumer.poll(0.1, 1):
            pass
        with memory_below(len(value) * 9 // 8 + 2 * STEP_BYTES):
            (record,) = scripted_poll(consumer, 1)
        assert record.value == value
