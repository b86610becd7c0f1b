"""Describes log entries and records: the fields of kafka-dump-log, under its names.

One mapping has two forms: as text, the line that Kafka's tool prints; as JSON, the same fields with
exact contents. The text escapes control characters and invalid UTF-8, since records may contain
sequences that control a terminal.

Thread-safety: pure functions.
Source: Kafka DumpLogSegments (tools 4.3.1), its output on logs of all three formats.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from kprod._core.layout import Magic
from kprod._core.record.batch_reader import RecordBatch
from kprod._core.record.message_set_reader import MessageEntry
from kprod.errors import CorruptRecord
from kprod.model import Codec, Header, Record, TimestampType
from kprod.record.control import decode_marker
from kprod.record.entries import LogEntry, has_valid_crc

Field: TypeAlias = int | str | bytes | list[Header] | None
Fields: TypeAlias = dict[str, Field]

RECORD_INDENT = "| "

_NO_SEQUENCE = -1
_SEQUENCE_COUNT = 2**31
_TIMESTAMP_TYPES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
_CONTROL_TYPE = struct.Struct(">hh")


def describe_entry(position: int, entry: LogEntry) -> Fields:
    """Name the fields of a batch, or of a message of the older formats.

    Args:
        position: Position of the entry, in bytes from the start of the log.
        entry: An entry of any format.

    Returns:
        Names and values, in the order to print them.
    """
    fields: Fields = _batch_fields(entry) if isinstance(entry, RecordBatch) else {}
    if isinstance(entry, MessageEntry):
        fields["offset"] = entry.offset
    fields["position"] = position
    fields |= _timestamp(entry, _entry_timestamp_ms(entry))
    fields["size"] = entry.size_bytes
    fields["magic"] = entry.magic
    fields["compresscodec"] = _codec_name(entry.codec)
    fields["crc"] = entry.crc
    fields["isvalid"] = has_valid_crc(entry)
    return fields


def describe_records(entry: LogEntry) -> Iterator[Fields]:
    """Name the fields of each record in an entry.

    Args:
        entry: An entry of any format; it is decompressed.

    Yields:
        Names and values, in the order to print them; key and payload last.

    Raises:
        CorruptRecord: The records are corrupt; those before them were given.
    """
    if isinstance(entry, RecordBatch):
        for record in entry:
            yield _batch_record_fields(entry, record)
        return
    for message in entry.messages():
        (row,) = message
        fields = _common_fields(entry, Record._make(row))
        fields["isValid"] = message.is_intact
        fields["crc"] = message.crc
        yield fields | {"key": row[2], "payload": row[3]}


def as_text(fields: Mapping[str, Field]) -> str:
    """Write fields as kafka-dump-log does: `name: value`, a null key or payload left out."""
    words = []
    for name, value in fields.items():
        if name == "timestampType" or (value is None and name in {"key", "payload"}):
            continue
        shown = str(fields["timestampType"]) if name == "timestamp" else name
        words.append(f"{shown}: {_text(name, value)}")
    return " ".join(words)


def as_json(fields: Mapping[str, Field]) -> dict[str, object]:
    """Turn fields into what `json` can write, with nothing lost.

    Returns:
        The same names, but `headers` with their values for `headerKeys`. Keys, payloads and header
        values are strings when they are UTF-8, otherwise objects with the one field `base64`.
    """
    return {
        "headers" if name == "headerKeys" else name: _json(value) for name, value in fields.items()
    }


def _batch_fields(batch: RecordBatch) -> Fields:
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
    }


def _entry_timestamp_ms(entry: LogEntry) -> int:
    return entry.max_timestamp_ms if isinstance(entry, RecordBatch) else entry.timestamp_ms


def _timestamp(entry: LogEntry, timestamp_ms: int) -> Fields:
    """A timestamp and its source; V0 has none."""
    name = "NoTimestampType"
    if entry.magic > Magic.MAGIC_V0:
        name = _TIMESTAMP_TYPES[TimestampType(entry.timestamp_type)]
    return {"timestampType": name, "timestamp": timestamp_ms}


def _codec_name(codec: int) -> str:
    """Kafka's name of a codec, or the number of one that there is not."""
    return Codec(codec).name.lower() if codec in set(Codec) else str(codec)


def _common_fields(entry: LogEntry, record: Record) -> Fields:
    """Return the fields of records of all formats."""
    fields: Fields = {"offset": record.offset}
    fields |= _timestamp(entry, record.timestamp_ms)
    fields["keySize"] = -1 if record.key is None else len(record.key)
    fields["valueSize"] = -1 if record.value is None else len(record.value)
    return fields


def _batch_record_fields(batch: RecordBatch, record: Record) -> Fields:
    fields = _common_fields(batch, record)
    fields["sequence"] = _NO_SEQUENCE
    if batch.base_sequence != _NO_SEQUENCE:
        delta = record.offset - batch.base_offset
        fields["sequence"] = (batch.base_sequence + delta) % _SEQUENCE_COUNT
    fields["headerKeys"] = list(record.headers)
    if batch.is_control:
        return fields | _control_fields(record)
    return fields | {"key": record.key, "payload": record.value}


def _control_fields(record: Record) -> Fields:
    """Return the fields of a control record, instead of its key and value."""
    marker = decode_marker(record)
    if marker is not None:
        return {
            "endTxnMarker": marker.control_type.name,
            "coordinatorEpoch": marker.coordinator_epoch,
        }
    if record.key is None:
        raise CorruptRecord(f"control record at offset {record.offset} has no key")
    return {"controlType": int(_CONTROL_TYPE.unpack_from(record.key)[1])}


def _text(name: str, value: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _printable(value.decode(errors="backslashreplace"))
    if isinstance(value, list):
        return "[" + ",".join(_printable(header.key) for header in value) + "]"
    if name == "deleteHorizonMs":
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    return str(value)


def _printable(text: str) -> str:
    """Escape what a terminal would obey or a line could not hold."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _json(value: Field) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [{"key": header.key, "value": _json(header.value)} for header in value]
    return value
