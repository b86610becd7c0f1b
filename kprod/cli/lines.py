"""Splits input into records: by delimiter, then into key and value.

Thread-safety: pure functions, except for reading the input.
Source: kcat 1.7's manual for -K, -D and -Z.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kprod.cli.json_lines import LineRecord, parse_json_line
from kprod.errors import RecordTooLarge

PIECE_BYTES = 64 * 1024
# Far above any broker's limit; bounds the memory for input without delimiters.
LINE_BYTES_MAX = 128 * 1024 * 1024

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([nrt0\\]))")
_ESCAPED = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


class LineFormat(NamedTuple):
    """Rules for splitting lines into key and value.

    Attributes:
        key: The key for lines without one.
        key_delimiter: The delimiter between key and value; None if lines are values.
        is_empty_null: Whether an empty key or value is null.
        null_marker: A text that means null as key or value; None for no such marker.
    """

    key: bytes | None = None
    key_delimiter: bytes | None = None
    is_empty_null: bool = False
    null_marker: bytes | None = None

    def parse(self, line: bytes) -> LineRecord:
        """Split a line into key and value.

        Args:
            line: A line without its delimiter.

        Returns:
            Key and value. A line without key delimiter is a value.
        """
        key: bytes | None = self.key
        value = line
        if self.key_delimiter:
            before, found, after = line.partition(self.key_delimiter)
            if found:
                key, value = self._content(before), after
        return LineRecord(self._content(value), key)

    def _content(self, written: bytes) -> bytes | None:
        if written == self.null_marker or (self.is_empty_null and not written):
            return None
        return written


class JsonFormat(NamedTuple):
    """Lines in JSON.

    Attributes:
        key: The key for lines without one.
    """

    key: bytes | None = None

    def parse(self, line: bytes) -> LineRecord:
        """Parse a line; see `parse_json_line`.

        Args:
            line: A line without its delimiter.

        Returns:
            The record.

        Raises:
            ValueError: The line is malformed.
        """
        record = parse_json_line(line)
        return record._replace(key=self.key) if record.key is None else record


def split_lines(read: Callable[[int], bytes], delimiter: bytes) -> Iterator[bytes]:
    """Split a stream of input at a delimiter.

    Args:
        read: Reads up to a number of bytes without waiting for all of them; returns nothing at the
            end.
        delimiter: At least one byte.

    Yields:
        The lines without delimiter. The rest after the last delimiter is a line unless it is empty.

    Raises:
        RecordTooLarge: A line exceeds `LINE_BYTES_MAX`.
    """
    rest = bytearray()
    searched = 0
    while piece := read(PIECE_BYTES):
        rest += piece
        start = 0
        while (end := rest.find(delimiter, max(searched, start))) >= 0:
            yield bytes(rest[start:end])
            start = end + len(delimiter)
        del rest[:start]
        # The delimiter may continue in the next piece.
        searched = max(len(rest) - len(delimiter) + 1, 0)
        if len(rest) > LINE_BYTES_MAX:
            raise RecordTooLarge(
                f"a line of more than {LINE_BYTES_MAX} bytes, and no {delimiter!r} yet"
            )
    if rest:
        yield bytes(rest)


def unescape(text: str) -> bytes:
    r"""Return the bytes of a typed delimiter, with the escapes \n, \r, \t, \0, \\ and \xNN.

    Args:
        text: The delimiter as typed; other characters are encoded as UTF-8.
    """
    pieces = []
    at = 0
    for escape in _ESCAPE.finditer(text):
        pieces.append(text[at : escape.start()].encode())
        hexadecimal, letter = escape.groups()
        pieces.append(bytes.fromhex(hexadecimal) if hexadecimal else _ESCAPED[letter])
        at = escape.end()
    return b"".join([*pieces, text[at:].encode()])
