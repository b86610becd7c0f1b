"""Prints indexes and snapshots, the files beside a log's segments, for `kprod dump`.

Thread-safety: pure functions.
Source: Kafka DumpLogSegments (tools 4.3.1) for fields and texts.
"""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import click

from kprod.broker.log.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)
from kprod.broker.log.producer_snapshot import decode_snapshot
from kprod.broker.log.stored_header import HEADER_BYTES, read_header
from kprod.broker.log.transaction_index import TransactionIndex
from kprod.errors import CorruptRecord

Entry: TypeAlias = dict[str, int | str]
TABLE_SUFFIXES = (*INDEX_SUFFIXES, SNAPSHOT_SUFFIX)
_OFFSET_ENTRY = struct.Struct(">II")
_TIME_ENTRY = struct.Struct(">qI")


def partition_files(directory: Path) -> list[Path]:
    """List the batch, index and snapshot files of a partition's directory.

    Args:
        directory: A partition's directory.

    Returns:
        The files by base offset, a segment before its indexes; other files are ignored.
    """
    order = (LOG_SUFFIX, *TABLE_SUFFIXES)
    found = [it for it in directory.iterdir() if it.suffix in order and _base_offset(it) >= 0]
    return sorted(found, key=lambda it: (_base_offset(it), order.index(it.suffix)))


def table_entries(path: Path) -> Iterator[Entry]:
    """Read the entries of an index or a snapshot.

    Args:
        path: A file whose suffix is one of `TABLE_SUFFIXES`.

    Yields:
        The fields of each entry, named as Kafka's tool names them.

    Raises:
        CorruptRecord: The file cannot be read to the end.
    """
    content, base_offset = path.read_bytes(), max(_base_offset(path), 0)
    if path.suffix == OFFSET_INDEX_SUFFIX:
        for relative_offset, position in _whole(_OFFSET_ENTRY, content):
            yield {"offset": base_offset + relative_offset, "position": position}
    elif path.suffix == TIME_INDEX_SUFFIX:
        for timestamp_ms, relative_offset in _whole(_TIME_ENTRY, content):
            yield {"timestamp": timestamp_ms, "offset": base_offset + relative_offset}
    elif path.suffix == TRANSACTION_INDEX_SUFFIX:
        for it in TransactionIndex.decoded(content):
            yield {
                "version": 0,
                "producerId": it.producer_id,
                "firstOffset": it.first_offset,
                "lastOffset": it.last_offset,
                "lastStableOffset": it.last_stable_offset,
            }
    else:
        yield from _producers(content)


def table_faults(path: Path) -> Iterator[str]:
    """Check an index: entries must rise, and each offset's entry must match a batch.

    Args:
        path: A file, as for `table_entries`, that can be read to the end.

    Yields:
        A sentence for each fault found.
    """
    if path.suffix not in {OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX}:
        return
    entry = _OFFSET_ENTRY if path.suffix == OFFSET_INDEX_SUFFIX else _TIME_ENTRY
    entries = list(_whole(entry, path.read_bytes()))
    for one, two in itertools.pairwise(entries):
        if one[0] >= two[0] or one[1] >= two[1]:
            yield f"entry {two} does not rise above {one}"
    log = path.with_suffix(LOG_SUFFIX)
    if path.suffix == OFFSET_INDEX_SUFFIX and log.exists():
        base_offset, ends = max(_base_offset(path), 0), _ends(log)
        for relative_offset, position in entries:
            offset = base_offset + relative_offset
            if ends.get(position) != offset:
                yield f"no batch at position {position} of {log.name} ends with offset {offset}"


def _ends(log: Path) -> dict[int, int]:
    """Map the position of each batch of a segment to its last offset."""
    ends, position = {}, 0
    with log.open("rb") as stream:
        while len(encoded := stream.read(HEADER_BYTES)) == HEADER_BYTES:
            header = read_header(memoryview(encoded), position)
            if header.size_bytes < HEADER_BYTES:
                break
            ends[position] = header.last_offset
            position += header.size_bytes
            stream.seek(position)
    return ends


def print_table(path: Path, *, as_json: bool, verify: bool) -> bool:
    """Print an index or a snapshot; faults go to standard error.

    Args:
        path: A file, as for `table_entries`.
        as_json: Print one JSON object for each entry instead of text.
        verify: Whether to check with `table_faults`.

    Returns:
        True if the file can be read to the end and has no fault.
    """
    if not as_json:
        click.echo(f"Dumping {path}")
    faults: list[str] = []
    try:
        for fields in table_entries(path):
            text = " ".join(f"{name}: {value}" for name, value in fields.items())
            click.echo(json.dumps({"log": str(path)} | fields) if as_json else text)
        faults += table_faults(path) if verify else ()
    except CorruptRecord as error:
        faults.append(str(error))
    for fault in faults:
        click.echo(f"{path}: {fault}", err=True)
    return not faults


def _producers(content: bytes) -> Iterator[Entry]:
    for it in decode_snapshot(content):
        has_batch = it.last_offset >= 0
        yield {
            "producerId": it.producer_id,
            "producerEpoch": it.producer_epoch,
            "coordinatorEpoch": it.coordinator_epoch,
            "currentTxnFirstOffset": it.open_offset if it.open_offset >= 0 else "None",
            "lastTimestamp": it.timestamp_ms,
            "firstSequence": it.last_sequence - it.offset_delta if has_batch else -1,
            "lastSequence": it.last_sequence,
            "lastOffset": it.last_offset,
            "offsetDelta": it.offset_delta,
            "timestamp": it.timestamp_ms,
        }


def _whole(entry: struct.Struct, content: bytes) -> Iterator[tuple[int, int]]:
    whole_bytes = len(content) - len(content) % entry.size
    for index, (first, second) in enumerate(entry.iter_unpack(content[:whole_bytes])):
        if index and not first and not second:
            return  # Kafka's index file of an active segment is padded with zeros
        yield first, second
    if whole_bytes != len(content):
        raise CorruptRecord(f"{len(content)} bytes end within an entry of {entry.size} bytes")


def _base_offset(path: Path) -> int:
    base_offset = base_offset_of(path.name, path.suffix)
    return -1 if base_offset is None else base_offset
