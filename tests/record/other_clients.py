"""kafka-python's and aiokafka's record code, reading and writing in one shape."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import aiokafka.record.default_records
import aiokafka.record.legacy_records
import aiokafka.record.memory_records
import kafka.record.default_records
import kafka.record.legacy_records
import kafka.record.memory_records

from kprod.model import Codec

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp in ms (−1 for none), key, value, headers."""

Content: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
"""A row without its offset."""

Reader: TypeAlias = Callable[[bytes], list[Row]]
Change: TypeAlias = Callable[[bytes], bytes]

ROOM_BYTES = 1 << 20


class Writer(Protocol):
    """Something that makes record bytes of rows whose offsets count from 0."""

    __name__: str

    def __call__(self, rows: Iterable[Row], *, magic: int, codec: int) -> bytes:
        """Return the rows encoded."""


def _read(records: Any) -> list[Row]:
    rows: list[Row] = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for record in batch:
            timestamp_ms = -1 if record.timestamp is None else record.timestamp
            headers = tuple((name, content) for name, content in record.headers)
            rows.append((record.offset, timestamp_ms, record.key, record.value, headers))
    return rows


def kafka_python_reads(raw: bytes) -> list[Row]:
    """Read with kafka-python."""
    return _read(kafka.record.memory_records.MemoryRecords(raw))


def aiokafka_reads(raw: bytes) -> list[Row]:
    """Read with aiokafka."""
    return _read(aiokafka.record.memory_records.MemoryRecords(raw))


def _write(builders: tuple[Any, Any], rows: Iterable[Row], *, magic: int, codec: int) -> bytes:
    legacy, v2 = builders
    if magic == 2:
        builder = v2(magic, codec, 0, -1, -1, -1, ROOM_BYTES)
        for offset, timestamp_ms, key, value, headers in rows:
            builder.append(offset, timestamp_ms, key, value, list(headers))
    else:
        builder = legacy(magic, codec, ROOM_BYTES)
        for offset, timestamp_ms, key, value, _ in rows:
            builder.append(offset, timestamp_ms, key, value)
    return bytes(builder.build())


def kafka_python_writes(rows: Iterable[Row], *, magic: int, codec: int) -> bytes:
    """Write with kafka-python."""
    builders = (
        kafka.record.legacy_records.LegacyRecordBatchBuilder,
        kafka.record.default_records.DefaultRecordBatchBuilder,
    )
    return _write(builders, rows, magic=magic, codec=codec)


def aiokafka_writes(rows: Iterable[Row], *, magic: int, codec: int) -> bytes:
    """Write with aiokafka."""
    builders = (
        aiokafka.record.legacy_records.LegacyRecordBatchBuilder,
        aiokafka.record.default_records.DefaultRecordBatchBuilder,
    )
    return _write(builders, rows, magic=magic, codec=codec)


READERS: list[Reader] = [kafka_python_reads, aiokafka_reads]
WRITERS: list[Writer] = [kafka_python_writes, aiokafka_writes]


def name_of(side: object) -> str:
    """Return the function's name, for pytest."""
    return str(getattr(side, "__name__", side))


def legacy_formats(side: object) -> list[tuple[int, Codec]]:
    """Return magic and codec of all V0 and V1 sets; aiokafka lacks one, LZ4 in V0."""
    lacks = (0, Codec.LZ4) if "aiokafka" in name_of(side) else None
    every = [(magic, codec) for magic in (0, 1) for codec in Codec if codec is not Codec.ZSTD]
    return [pair for pair in every if pair != lacks]
