"""Encoding V2 batches: kprod's builder beside aiokafka's compiled and kafka-python's own.

Three questions. What one record costs when each builder's `append` is called from the same Python
loop. What a whole batch costs, closed, per byte of its records and with each codec. And what
kprod's calls cost when the loop itself is compiled (`map`, run to its end), the whole send path
with a future for each record among them, whose drain discards full batches.

CPU time of the calling thread is measured, as everywhere here: neighbours do not stretch it.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import kafka.record.default_records
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from report import Contestant, Report, main
from report_values import Metric

import kprod.producer.future  # registers what futures need of the layers above
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod._core.record.compression_buffer import CompressionBuffer
from kprod._core.send.partition_appender import PartitionAppender, TopicRoutes
from kprod._core.send.send_hooks import SendHooks
from kprod._core.send.send_path import SendMethod, SendPath
from kprod.clock import SystemClock
from kprod.compression import compressor
from kprod.model import Codec
from kprod.producer.send_rules import SendRules

assert kprod.producer.future is not None  # the import is the thing measured

BATCH_BYTES = 1_000_000
BASE_MS = 1_700_000_000_000
BASELINE = "aiokafka"
Headers = Sequence[tuple[str, bytes]]


# Offset, timestamp in ms, key, value, headers.
Row = tuple[int, int, bytes | None, bytes, Headers]


class Records(NamedTuple):
    """About one batch of the default size: the same records for all, as rows and as columns."""

    rows: list[Row]
    columns: tuple[Sequence[Any], ...]


Encode = Callable[[Records, Codec], object]


def records_of(value_bytes: int, *, with_key: bool, headers: Headers) -> Records:
    """Make as many records as fill about one batch."""
    document = b'{"id":%d,"name":"customer %d","ok":true}'
    count = BATCH_BYTES // (value_bytes + 20 + 40 * len(headers))
    rows: list[Row] = [
        (
            index,
            BASE_MS + index,
            b"key-%06d" % index if with_key else None,
            (document % (index * 7_919, index % 97) * (value_bytes // 30 + 1))[:value_bytes],
            headers,
        )
        for index in range(count)
    ]
    return Records(rows, tuple(zip(*rows, strict=True)))


TWO_HEADERS: Headers = [("trace", b"0123456789abcdef"), ("kind", b"order")]
SHAPES = {
    "10 B": records_of(10, with_key=False, headers=[]),
    "100 B": records_of(100, with_key=False, headers=[]),
    "100 B, key": records_of(100, with_key=True, headers=[]),
    "100 B, key, 2 headers": records_of(100, with_key=True, headers=TWO_HEADERS),
    "1 kB, key": records_of(1_000, with_key=True, headers=[]),
}


def benchmark(report: Report) -> None:
    """Ratios in one run: the loop, the whole batch, the codecs, and the compiled loop apart."""
    repeats = report.pick(30, 4)
    for name, records in SHAPES.items():
        report.compare(
            [
                Contestant("kprod", _record_rate(_kprod_append, records, repeats)),
                Contestant(BASELINE, _record_rate(_aiokafka_append, records, repeats)),
                Contestant("kafka-python", _record_rate(_kafka_python_append, records, 1)),
            ],
            metric=Metric(f"append from a Python loop, {name}", "records/CPU s"),
            baseline=BASELINE,
        )
    records = SHAPES["100 B, key"]
    for codec in Codec:
        times = repeats if codec in {Codec.NONE, Codec.SNAPPY, Codec.LZ4} else repeats // 4
        report.compare(
            [
                Contestant("kprod", _byte_rate(_kprod_batch, records, codec, times)),
                Contestant(BASELINE, _byte_rate(_aiokafka_batch, records, codec, times)),
                Contestant("kafka-python", _byte_rate(_kafka_python_batch, records, codec, 1)),
            ],
            metric=Metric(f"whole batch, 100 B, key, {codec.name.lower()}", "B/CPU s"),
            baseline=BASELINE,
        )
    _compare_compiled_loops(report, repeats)


def _compare_compiled_loops(report: Report, repeats: int) -> None:
    """The same calls when no bytecode runs between them."""
    for name, records in SHAPES.items():
        report.compare(
            [
                Contestant("try_append", _record_rate(_kprod_mapped, records, repeats)),
                Contestant("send, with a future", _record_rate(_Discarding(), records, repeats)),
                Contestant("aiokafka append", _record_rate(_aiokafka_mapped, records, repeats)),
            ],
            metric=Metric(f"compiled loop, {name}", "records/CPU s"),
            baseline="aiokafka append",
        )


def _record_rate(
    encode: Callable[[Records], object], records: Records, times: int
) -> Callable[[], float]:
    def measure() -> float:
        started_s = time.thread_time()
        for _ in range(times):
            encode(records)
        return times * len(records.rows) / (time.thread_time() - started_s)

    return measure


def _byte_rate(encode: Encode, records: Records, codec: Codec, times: int) -> Callable[[], float]:
    """Bytes of uncompressed records per second, so that the codec's ratio does not matter."""
    size_bytes = len(_aiokafka_batch(records, Codec.NONE))

    def measure() -> float:
        started_s = time.thread_time()
        for _ in range(times):
            encode(records, codec)
        return times * size_bytes / (time.thread_time() - started_s)

    return measure


POOL = ChunkPool(64 << 20)
BUFFER = CompressionBuffer()


def _open() -> BatchBuilder:
    chain = POOL.try_chain()
    assert chain is not None  # the pool holds many batches
    return BatchBuilder(chain, 2 * BATCH_BYTES)


def _kprod_fill(records: Records) -> BatchBuilder:
    builder = _open()
    append = builder.try_append
    appended = AppendResult.APPENDED
    for _, timestamp_ms, key, value, headers in records.rows:
        while append(timestamp_ms, key, value, headers) is not appended:
            chunk = POOL.try_chunk()
            assert chunk is not None  # the pool holds many batches
            builder.add_chunk(chunk)
    return builder


def _kprod_append(records: Records) -> None:
    _kprod_fill(records).chain.release()


def _kprod_batch(records: Records, codec: Codec) -> object:
    builder = _kprod_fill(records)
    if codec:
        builder.pack(compressor(codec)(builder.records(BUFFER)))
    pieces = builder.close(attributes=codec)
    builder.chain.release()
    return pieces


def _kprod_mapped(records: Records) -> None:
    builder = _open()
    while builder.chain.lent_bytes < 1.2 * BATCH_BYTES:
        chunk = POOL.try_chunk()
        assert chunk is not None  # the pool holds many batches
        builder.add_chunk(chunk)
    _, timestamps_ms, keys, values, headers = records.columns
    deque(map(builder.try_append, timestamps_ms, keys, values, headers), maxlen=0)
    assert builder.record_count == len(records.rows)  # a rate of rejections means nothing
    builder.chain.release()


def _aiokafka_fill(records: Records, codec: Codec) -> DefaultRecordBatchBuilder:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 2 * BATCH_BYTES)
    append = builder.append
    for offset, timestamp_ms, key, value, headers in records.rows:
        if append(offset, timestamp_ms, key, value, headers) is None:
            raise ValueError
    return builder


def _aiokafka_append(records: Records) -> None:
    _aiokafka_fill(records, Codec.NONE)


def _aiokafka_batch(records: Records, codec: Codec) -> bytearray:
    built: bytearray = _aiokafka_fill(records, codec).build()
    return built


def _aiokafka_mapped(records: Records) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 2 * BATCH_BYTES)
    deque(map(builder.append, *records.columns), maxlen=0)


def _kafka_python_fill(
    records: Records, codec: Codec
) -> kafka.record.default_records.DefaultRecordBatchBuilder:
    builder = kafka.record.default_records.DefaultRecordBatchBuilder(
        2, codec, 0, -1, -1, -1, 2 * BATCH_BYTES
    )
    append = builder.append
    for offset, timestamp_ms, key, value, headers in records.rows:
        if append(offset, timestamp_ms, key, value, headers) is None:
            raise ValueError
    return builder


def _kafka_python_append(records: Records) -> None:
    _kafka_python_fill(records, Codec.NONE)


def _kafka_python_batch(records: Records, codec: Codec) -> object:
    return _kafka_python_fill(records, codec).build()


class _Batch:
    """The contents of a partition's queue: builder and result."""

    def __init__(self, queue: PartitionAppender, chain: ChunkChain) -> None:
        self.builder = BatchBuilder(chain, BATCH_BYTES)
        self.result = BatchResult(queue.topic, queue.partition)


class _Discarding(SendPath, SendHooks):
    """A send path of one partition whose full batches go nowhere."""

    def __init__(self) -> None:
        options = SendRules(max_block_ms=1_000, record_bytes_max=BATCH_BYTES)
        super().__init__(self, POOL, SystemClock(), deque(), {}, options)
        self.send = SendMethod(self, None).send
        self.topics["orders"] = TopicRoutes("orders", [PartitionAppender("orders", 0)])

    def make_batch(self, queue: PartitionAppender, chain: ChunkChain) -> _Batch:
        """Open the next batch."""
        return _Batch(queue, chain)

    def roll_sticky(self, head: TopicRoutes) -> None:
        """Stay on the one partition there is."""

    def __call__(self, records: Records) -> None:
        """Send all rows, drop their futures, then give the memory back."""
        _, _, keys, values, headers = records.columns
        topics = ["orders"] * len(records.rows)
        deque(map(self.send, topics, values, keys, headers), maxlen=0)
        queue = self.topics["orders"].queues[0]
        queue.seal()
        while queue.batches:
            queue.batches.popleft().builder.chain.release()
        self.inbox.clear()


if __name__ == "__main__":
    main("Encoding V2 batches", benchmark)
