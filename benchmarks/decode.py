"""Iterating the records of batches: kprod beside aiokafka's compiled reader.

Both check the checksum, walk every record, and take key, value and headers of each.
"""

import time
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from report import Contestant, Report, main
from report_values import Metric

from kprod.record.reader import read_batches

RECORDS_PER_BATCH = 5_000
BASE_MS = 1_700_000_000_000
SHAPES: dict[str, tuple[int, list[tuple[str, bytes]]]] = {
    "100 B": (100, []),
    "100 B, 2 headers": (100, [("trace", b"0123456789abcdef"), ("kind", b"order")]),
    "1 kB": (1_000, []),
}


def encoded(value_bytes: int, headers: list[tuple[str, bytes]]) -> bytes:
    """Write one batch with a client that is neither of the two readers' judge."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 26)
    for index in range(RECORDS_PER_BATCH):
        key = b"key-%06d" % index
        builder.append(index, BASE_MS + index, key, b"v" * value_bytes, headers)
    return bytes(builder.build())


def benchmark(report: Report) -> None:
    """Nanoseconds per record, for several shapes of records."""
    repeats = report.pick(60, 6)
    for name, (value_bytes, headers) in SHAPES.items():
        buffer = encoded(value_bytes, headers)
        ways: list[tuple[str, Callable[[bytes], int]]] = [
            ("kprod tuples", _tuples),
            ("kprod records", _records),
            ("kprod check only", _checked),
            ("aiokafka", _aiokafka),
        ]
        report.compare(
            [Contestant(way, _cpu_ns(read, buffer, repeats)) for way, read in ways],
            metric=Metric(f"decode {name}", "ns", more_is_better=False),
            baseline="aiokafka",
        )


def _cpu_ns(read: Callable[[bytes], int], buffer: bytes, repeats: int) -> Callable[[], float]:
    """Nanoseconds of this thread's CPU time per record."""

    def measure() -> float:
        started_ns = time.thread_time_ns()
        count = sum(read(buffer) for _ in range(repeats))
        return (time.thread_time_ns() - started_ns) / count

    return measure


def _tuples(buffer: bytes) -> int:
    count = 0
    for batch in read_batches(buffer):
        for _key, _value, _headers in batch.tuples():
            pass
        count += batch.record_count
    return count


def _records(buffer: bytes) -> int:
    count = 0
    for batch in read_batches(buffer):
        for record in batch:
            _key, _value, _headers = record.key, record.value, record.headers
        count += batch.record_count
    return count


def _checked(buffer: bytes) -> int:
    count = 0
    for batch in read_batches(buffer):
        batch.check_records()
        count += batch.record_count
    return count


def _aiokafka(buffer: bytes) -> int:
    records = MemoryRecords(buffer)
    count = 0
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError
        for record in batch:
            _key, _value, _headers = record.key, record.value, record.headers
            count += 1
    return count


if __name__ == "__main__":
    main("Decoding V2 batches", benchmark)
