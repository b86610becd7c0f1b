"""JSON lines: written records are read back unchanged, errors are named."""

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.cli.json_lines import INT64_MAX, LineRecord, format_json_line, parse_json_line
from kprod.model import Header, Record, TimestampType

CONTENTS = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
NAMES = st.text(max_size=10)
HEADERS = st.lists(st.builds(Header, NAMES, CONTENTS), max_size=3).map(tuple)
RECORDS = st.builds(
    Record, st.integers(0, INT64_MAX), st.integers(0, INT64_MAX), CONTENTS, CONTENTS, HEADERS
)


@given(record=RECORDS, partition=st.integers(0, 2**31 - 1))
def test_written_records_are_read_back(record: Record, partition: int) -> None:
    """Every byte of key, value and headers; and a line stays one line."""
    line = format_json_line("orders", partition, record)
    assert line.isprintable() or not any(ord(it) < 0x20 or 0x7F <= ord(it) <= 0x9F for it in line)
    assert len(line.splitlines()) == 1
    assert parse_json_line(line.encode()) == LineRecord(
        record.value, record.key, record.headers, "orders", partition, record.timestamp_ms
    )


def test_a_line_for_people() -> None:
    """Text is readable, bytes are base64, null is null."""
    record = Record(7, 1_700_000_000_000, "ключ".encode(), b"\xff", (Header("h", None),))
    line = format_json_line("orders", 0, record, TimestampType.LOG_APPEND_TIME)
    assert line == (
        '{"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000,'
        ' "timestamp_type": "append", "key": "ключ", "value": {"base64": "/w=="},'
        ' "headers": [["h", null]]}'
    )


def test_no_timestamp_is_left_out() -> None:
    """A log of the oldest format has none: −1."""
    fields = json.loads(format_json_line("orders", 0, Record(0, -1, None, b"")))
    assert "timestamp" not in fields
    assert "timestamp_type" not in fields


def test_only_a_value_is_needed() -> None:
    """All else has a meaning when it is absent."""
    assert parse_json_line(b'{"value": "v"}\r\n') == LineRecord(b"v")
    assert parse_json_line(b'{"value": null, "key": null, "headers": null}') == LineRecord(None)


def test_a_terminal_is_not_controlled() -> None:
    """Not by C1 controls either, which JSON would leave as they are."""
    record = Record(0, 0, None, "\x9b31m\x7f\x1b\u2028".encode())
    assert '"value": "\\u009b31m\\u007f\\u001b\\u2028"' in format_json_line("t", 0, record)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "is not JSON: Expecting value at character 1"),
        (b'{"value": ', "is not JSON: Expecting value at character 11"),
        (b'"v"', 'is not a JSON object: "v"'),
        (b'{"value": "\xff"}', "is not UTF-8 at byte 12"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"key": "k"}', 'has no field "value"'),
        (b'{"vlaue": "v"}', 'has a field "vlaue"; there are topic, partition, timestamp, key'),
        (b'{"value": "v", "value": "w"}', 'has a field "value" twice'),
        (b'{"value": 1}', 'has 1 as "value"; write a string, null, or'),
        (b'{"value": {"base64": "?"}}', 'has broken base64 in "value"'),
        (b'{"value": {"base64": 1}}', 'has {"base64": 1} as "value"; write a string'),
        (b'{"value": true}', 'has true as "value"; write a string'),
        (b'{"value": {"base64": "", "x": 1}}', 'as "value"; write a string'),
        (b'{"value": "\\ud800"}', 'has half a surrogate pair in "value"'),
        (b'{"value": "", "headers": {}}', 'has {} as "headers"; write a list of pairs'),
        (
            b'{"value": "", "headers": [["a"]]}',
            'has ["a"] as an entry of "headers"; write a pair of a name and a value, such as',
        ),
        (
            b'{"value": "", "headers": [["a", 5]]}',
            'has 5 as the value of header "a"; write a string, null, or {"base64": "…"}',
        ),
        (
            b'{"value": "", "headers": [["a", {"base64": "?"}]]}',
            'has broken base64 in the value of header "a"',
        ),
        (b'{"value": "", "headers": [["\\udc00", ""]]}', "surrogate pair in a header's name"),
        (b'{"value": "", "partition": -1}', "write a whole number from 0 to 2147483647"),
        (b'{"value": "", "partition": true}', "write a whole number"),
        (b'{"value": "", "timestamp": 1.5}', 'has 1.5 as "timestamp"; write a whole number'),
        (b'{"value": "", "timestamp": NaN}', 'has NaN as "timestamp"'),
        (b'{"value": "", "timestamp": ' + b"9" * 5_000 + b"}", "5000 digits; at most 20 are"),
        (b'{"value": "", "timestamp": -' + b"9" * 21 + b"}", "has a number of 21 digits"),
        (b'{"value": "", "topic": 1}', 'has 1 as "topic"; write a string'),
    ],
)
def test_the_fault_is_named(line: bytes, text: str) -> None:
    """One error for all of it, short whatever the line has."""
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        parse_json_line(line)
    assert len(str(caught.value)) < 300


def test_lists_of_every_depth_are_rejected() -> None:
    """Also one that is just shallow enough to be read, and too deep to be shown."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 120, limit):
        with pytest.raises(ValueError, match=r'as "value"; write|is nested too deeply'):
            parse_json_line(b'{"value": ' + b"[" * depth + b"]" * depth + b"}")
