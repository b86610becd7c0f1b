"""The lines about entries and records, against Kafka's own tool."""

import json

import pytest

from kprod.errors import CorruptRecord
from kprod.record.description import as_json, as_text, describe_entry, describe_records
from kprod.record.entries import read_entries
from kprod.record.scan import LogScanner
from tests.oracle import record_v2
from tests.plugins.vectors import DIRECTORY

KAFKA = json.loads((DIRECTORY / "dump_log_segments.json").read_text(encoding="utf-8"))


def lines(raw: bytes) -> list[str]:
    """Return what would be printed for a log."""
    printed = []
    for located in LogScanner().feed(raw):
        printed.append(as_text(describe_entry(*located)))
        printed += [f"| {as_text(fields)}" for fields in describe_records(located.entry)]
    return printed


def test_lines_are_those_of_kafkas_tool() -> None:
    """A log of three formats, a wrapper, a marker, headers and nulls: the same lines."""
    assert lines(bytes.fromhex(KAFKA["hex"])) == KAFKA["output"][2:-1]


def test_contents_cannot_command_a_terminal() -> None:
    """Control characters, and bytes that are no UTF-8, are escaped."""
    headers = [("a\x1b]0;h\x07", b"")]
    raw = record_v2.encode_batch([(0, b"\x1b[2J\xff", "line\nüber".encode(), headers)])
    (_, record) = lines(raw)
    assert record.isprintable()
    assert r"key: \x1b[2J\xff payload: line\nüber" in record
    assert r"headerKeys: [a\x1b]0;h\x07]" in record


def test_json_loses_nothing() -> None:
    """Text stays text, other bytes are base64, headers have their values."""
    raw = record_v2.encode_batch([(7, b"\xff", "ü\n".encode(), [("h", None), ("h", b"x")])])
    (entry,) = read_entries(raw)
    (record,) = [as_json(fields) for fields in describe_records(entry)]
    assert record["key"] == {"base64": "/w=="}
    assert record["payload"] == "ü\n"
    assert record["headers"] == [{"key": "h", "value": None}, {"key": "h", "value": "x"}]
    assert record["timestampType"] == "CreateTime"
    assert json.loads(json.dumps(as_json(describe_entry(0, entry))))["isvalid"] is True


def test_sequences_wrap() -> None:
    """After the largest sequence comes 0."""
    rows: list[record_v2.RecordInput] = [(0, None, b"a", []), (0, None, b"b", [])]
    raw = record_v2.encode_batch(rows, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1)
    (entry,) = read_entries(raw)
    assert [fields["sequence"] for fields in describe_records(entry)] == [2**31 - 1, 0]


def test_other_control_records_are_named_by_number() -> None:
    """A log's control records are not all transaction markers."""
    raw = record_v2.encode_batch([(0, b"\0\0\0\2", b"", [])], is_control=True)
    assert lines(raw)[1].endswith("headerKeys: [] controlType: 2")


def test_a_control_record_without_key_is_corrupt() -> None:
    """Nothing says what it is."""
    raw = record_v2.encode_batch([(0, None, b"", [])], is_control=True)
    with pytest.raises(CorruptRecord):
        lines(raw)


def test_unknown_codecs_are_shown_by_number() -> None:
    """A batch whose records cannot be read still has a header."""
    raw = bytearray(record_v2.encode_batch([(0, None, b"", [])]))
    raw[22] |= 5
    (entry,) = read_entries(bytes(raw), check_crc=False)
    text = as_text(describe_entry(0, entry))
    assert "compresscodec: 5" in text
    assert text.endswith("isvalid: false")
