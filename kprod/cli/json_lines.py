"""The JSON form of records: `kprod consume` writes it, `kprod produce --json` reads it.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "timestamp_type": "create", "key": "k", "value": "v", "headers": [["trace", "1"]]}

A key or value is null, a string if its bytes are UTF-8, or else `{"base64": "/w=="}`. Headers are
pairs in order; keys may repeat. `timestamp` is in milliseconds since 1970. Reading a written record
gives the same bytes.

When reading, only `value` is required. `offset` and `timestamp_type` are ignored, since the log
assigns them. Unknown names are rejected, because a misspelt one would lose a field silently.

Thread-safety: pure functions.
Source: RFC 8259 for JSON, RFC 4648 for base64; the schema is kprod's own.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from kprod.config.quoting import truncated
from kprod.model import Header, Record, TimestampType

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
_TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "append"}
_BASE64 = "base64"
_DIGITS_MAX = 20
# Control characters outside ASCII; JSON escapes those inside.
_TERMINAL_CONTROLS = re.compile(r"[\x7f-\x9f\u2028\u2029]")


class LineRecord(NamedTuple):
    """The record in a line.

    Attributes:
        value: The value; None for null.
        key: The key; None for null.
        headers: The headers, in order.
        topic: The topic; None if the line has none.
        partition: The partition number; None if the line has none.
        timestamp_ms: Milliseconds since 1970; None if the line has none.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def format_json_line(
    topic: str,
    partition: int,
    record: Record,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> str:
    """Format a record.

    Args:
        topic: The topic it was read from.
        partition: The partition that it was read from.
        record: The record; a negative timestamp is omitted.
        timestamp_type: Whether the producer or the broker chose its timestamp.

    Returns:
        One line without line end and without control characters.
    """
    line: dict[str, object] = {"topic": topic, "partition": partition, "offset": record.offset}
    if record.timestamp_ms >= 0:
        line["timestamp"] = record.timestamp_ms
        line["timestamp_type"] = _TIMESTAMP_TYPES[timestamp_type]
    line["key"] = _written(record.key)
    line["value"] = _written(record.value)
    line["headers"] = [[name, _written(value)] for name, value in record.headers]
    text = json.dumps(line, ensure_ascii=False)
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def parse_json_line(line: bytes) -> LineRecord:
    """Parse a record.

    Args:
        line: The line, with or without line end.

    Returns:
        The record.

    Raises:
        ValueError: The line is not a JSON object of this schema; the text says why.
    """
    try:
        fields = json.loads(line.decode("utf-8"), object_pairs_hook=_object, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(fields, dict):
        text = f"is not a JSON object: {_shown(fields)}"
        raise ValueError(text)  # noqa: TRY004 - it is about a line's text
    for name in fields:
        if name not in _READERS and name not in _PASSED:
            raise ValueError(f"has a field {_shown(name)}; there are {', '.join(_READERS)}")
    if "value" not in fields:
        raise ValueError('has no field "value"; a record without one has "value": null')
    given = {
        field: read(fields[name], _shown(name))
        for name, (field, read) in _READERS.items()
        if name in fields
    }
    return LineRecord(**given)  # type: ignore[arg-type]  # each reader returns its field's type


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Create a dict; raises for a repeated name, since one of the values would be lost."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has a field {_shown(twice)} twice")
    return made


def _integer(digits: str) -> int:
    count = len(digits.lstrip("-"))
    if count > _DIGITS_MAX:
        raise ValueError(f"has a number of {count} digits; at most {_DIGITS_MAX} are allowed")
    return int(digits)


def _written(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(content).decode("ascii")}


def _read_bytes(written: object, place: str) -> bytes | None:
    """Read bytes; `place` is how an error refers to them."""
    if written is None:
        return None
    if isinstance(written, str):
        try:
            return written.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"has half a surrogate pair in {place}") from None
    if isinstance(written, Mapping) and list(written) == [_BASE64]:
        encoded = written[_BASE64]
        if isinstance(encoded, str):
            try:
                return base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                raise ValueError(f"has broken base64 in {place}") from None
    return _reject(written, place, 'a string, null, or {"base64": "…"}')


def _read_headers(written: object, place: str) -> tuple[Header, ...]:
    if written is None:
        return ()
    if not isinstance(written, list):
        _reject(written, place, 'a list of pairs, such as [["trace", "1"]]')
    headers = []
    for pair in written:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):  # noqa: PLR2004
            wanted = 'a pair of a name and a value, such as ["trace", "1"]'
            _reject(pair, f"an entry of {place}", wanted)
        name, value = pair
        _read_bytes(name, "a header's name")  # it must be UTF-8
        headers.append(Header(name, _read_bytes(value, f"the value of header {_shown(name)}")))
    return tuple(headers)


def _read_topic(written: object, place: str) -> str | None:
    if written is not None and not isinstance(written, str):
        _reject(written, place, "a string")
    return written


def _read_partition(written: object, place: str) -> int | None:
    return _read_number(written, place, INT32_MAX)


def _read_timestamp(written: object, place: str) -> int | None:
    return _read_number(written, place, INT64_MAX)


def _read_number(written: object, place: str, highest: int) -> int | None:
    if written is None:
        return None
    if not isinstance(written, int) or isinstance(written, bool) or not 0 <= written <= highest:
        _reject(written, place, f"a whole number from 0 to {highest}")
    return written


def _reject(written: object, place: str, wanted: str) -> NoReturn:
    raise ValueError(f"has {_shown(written)} as {place}; write {wanted}")


def _shown(written: object) -> str:
    """Return a value as JSON, since the line has it so; truncated."""
    try:
        return truncated(json.dumps(written))
    except RecursionError:
        raise ValueError("is nested too deeply") from None


_READERS: Mapping[str, tuple[str, Callable[[object, str], object]]] = {
    "topic": ("topic", _read_topic),
    "partition": ("partition", _read_partition),
    "timestamp": ("timestamp_ms", _read_timestamp),
    "key": ("key", _read_bytes),
    "value": ("value", _read_bytes),
    "headers": ("headers", _read_headers),
}
_PASSED = frozenset({"offset", "timestamp_type"})
