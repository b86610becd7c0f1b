"""Conversion between record formats, for peers and logs that know only one of them.

Down, an entry loses what the older format lacks: headers, producer fields and control batches below
V2, timestamps below V1. Up, nothing is lost. Offsets and codecs stay, so a compacted log keeps its
gaps. An entry whose format is old enough is passed on as it is.

Thread-safety: pure functions.
Source: Kafka RecordsUtil.downConvert (clients 3.9.1) and LogValidator (server 3.9.1), KIP-110.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kprod._core.layout import Magic
from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.message_set_reader import MessageEntry
from kprod.compression import Buffer
from kprod.errors import LocalProtocolError, UnsupportedCodec
from kprod.model import CODECS, Codec, Record, TimestampType
from kprod.record.entries import LogEntry, Run, runs
from kprod.record.message_set import write_message_set
from kprod.record.writer import write_batch


class _Kind(NamedTuple):
    """The values that records must share to be in one V2 batch."""

    codec: Codec
    log_append_time_ms: int | None


def down_convert(buffer: Buffer, magic: int, *, check_crc: bool = True) -> bytes:
    """Write log entries in a format no newer than `magic`.

    Args:
        buffer: Entries of any format; one cut off at the end is left out.
        magic: 0 or 1; with 2 whole entries are copied.
        check_crc: False trusts the bytes.

    Returns:
        A message set; empty when there were only control batches.

    Raises:
        UnsupportedCodec: A batch of zstd, which the older formats lack.
        CorruptRecord: The input is not a valid sequence of entries.
        LocalProtocolError: There is no such magic.
    """
    _check_magic(magic)
    return b"".join(
        _lowered(run, entry, magic)
        for run in runs(buffer)
        for entry in run.entries(check_crc=check_crc)
    )


def up_convert(
    buffer: Buffer, *, base_offset: int | None = None, check_crc: bool = True
) -> list[bytes]:
    """Write log entries as V2 batches.

    Args:
        buffer: Entries of any format; one cut off at the end is left out.
        base_offset: Number the records from here on, as a log does that appends them. None keeps
            their offsets.
        check_crc: False trusts the bytes.

    Returns:
        The batches, in order. A wrapper becomes a batch of its codec; messages outside wrappers
        share one batch. A gap in the offsets begins another.

    Raises:
        CorruptRecord: The input is not a valid sequence of entries.
        LocalProtocolError: `base_offset` was given and the input holds V2 batches, which are
            numbered in place (`rewrite_offsets`).
    """
    batches: list[bytes] = []
    for run in runs(buffer):
        if not run.is_v2:
            messages = (e for e in run.entries(check_crc=check_crc) if isinstance(e, MessageEntry))
            raised = list(_raised(messages, base_offset))
            batches += raised
            continue
        if base_offset is not None:
            raise LocalProtocolError(
                "asked to number records that are in V2 batches; use rewrite_offsets"
            )
        batches += [_raw(run, entry) for entry in run.entries(check_crc=check_crc)]
    return batches


def _check_magic(magic: int) -> None:
    if not Magic.MAGIC_V0 <= magic <= Magic.MAGIC_V2:
        raise LocalProtocolError(
            f"asked for records of magic {magic}, there are 0 to {Magic.MAGIC_V2}"
        )


def _raw(run: Run, entry: LogEntry) -> bytes:
    """The entry's own bytes."""
    return bytes(run.view[entry.position : entry.position + entry.size_bytes])


def _lowered(run: Run, entry: LogEntry, magic: int) -> bytes:
    """One entry in the older format, or as it is."""
    if entry.magic <= magic:
        return _raw(run, entry)
    if isinstance(entry, RecordBatch) and entry.is_control:
        return b""
    facts = CODECS.get(entry.codec)
    if facts is not None and magic < facts.first_magic:
        place = run.start + entry.position
        raise UnsupportedCodec(
            f"{facts.name} batch at byte {place} cannot be sent as magic {magic}"
        )
    records = list(entry)  # an unknown codec raises here
    return write_message_set(
        records,
        magic=magic,
        codec=Codec(entry.codec),
        log_append_time_ms=_log_append_time_ms(entry) if magic else None,
    )


def _log_append_time_ms(entry: LogEntry) -> int | None:
    """The broker's stamp, if it stamped the entry."""
    if entry.timestamp_type != TimestampType.LOG_APPEND_TIME:
        return None
    return entry.max_timestamp_ms if isinstance(entry, RecordBatch) else entry.timestamp_ms


def _raised(messages: Iterable[MessageEntry], base_offset: int | None) -> Iterator[bytes]:
    """V2 batches of the messages; neighbours of one kind and without gaps share one."""
    gathered: list[Record] = []
    gathered_kind = _Kind(Codec.NONE, None)
    next_offset = base_offset
    for message in messages:
        records = [Record._make(row) for row in message]
        if next_offset is not None:
            records = _renumbered(records, next_offset)
            next_offset += len(records)
        kind = _Kind(Codec(message.codec), _log_append_time_ms(message))
        for part in _contiguous(records):
            follows = bool(gathered) and gathered[-1].offset + 1 == part[0].offset
            if gathered and not (follows and kind == gathered_kind and kind.codec is Codec.NONE):
                yield _batch(gathered, gathered_kind)
                gathered = []
            gathered += part
            gathered_kind = kind
    if gathered:
        yield _batch(gathered, gathered_kind)


def _batch(records: Sequence[Record], kind: _Kind) -> bytes:
    return write_batch(records, codec=kind.codec, log_append_time_ms=kind.log_append_time_ms)


def _renumbered(records: Iterable[Record], base_offset: int) -> list[Record]:
    return [
        record._replace(offset=offset) for offset, record in enumerate(records, start=base_offset)
    ]


def _contiguous(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Cut the records where an offset does not follow from the one before."""
    part: list[Record] = []
    for record in records:
        if part and record.offset != part[-1].offset + 1:
            yield part
            part = []
        part.append(record)
    if part:
        yield part
