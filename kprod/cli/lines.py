"""Lines of input to records: cutting bytes at a delimiter, and keys from values.

Thread-safety: pure but for the reading.
Source: kcat 1.7's manual for -K, -D and -Z.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kprod.cli.json_lines import LineRecord, parse_json_line
from kprod.errors import RecordTooLarge

PIECE_BYTES = 64 * 1024
# Far above what any broker takes; input without a delimiter must not fill the memory.
LINE_BYTES_MAX = 128 * 1024 * 1024

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([nrt0\\]))")
_ESCAPED = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


class LineFormat(NamedTuple):
    """How a line says what its record is.

    Attributes:
        key: The key of records whose line has none.
        key_delimiter: Between key and value; None when lines are values.
        is_empty_null: Whether an empty key or value means null.
        null_marker: A key or value that means null; None for no such marker.
    """

    key: bytes | None = None
    key_delimiter: bytes | None = None
    is_empty_null: bool = False
    null_marker: bytes | None = None

    def parse(self, line: bytes) -> LineRecord:
        """Tell key and value of a line apart.

        Args:
            line: Without its delimiter.

        Returns:
            Key and value. A line without the key's delimiter is a value.
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
    """Lines of JSON.

    Attributes:
        key: The key of records whose line has none.
    """

    key: bytes | None = None

    def parse(self, line: bytes) -> LineRecord:
        """Read a line; see `parse_json_line`.

        Args:
            line: Without its delimiter.

        Returns:
            The record.

        Raises:
            ValueError: It is malformed.
        """
        record = parse_json_line(line)
        return record._replace(key=self.key) if record.key is None else record


def split_lines(read: Callable[[int], bytes], delimiter: bytes) -> Iterator[bytes]:
    """Cut input at a delimiter, as it comes.

    Args:
        read: Returns up to so many bytes, what there is; empty at the end.
        delimiter: At least one byte.

    Yields:
        Lines without their delimiter. Behind the last delimiter a line is one only if not empty.

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
        # The delimiter may be cut by the end of the piece.
        searched = max(len(rest) - len(delimiter) + 1, 0)
        if len(rest) > LINE_BYTES_MAX:
            raise RecordTooLarge(
                f"a line of more than {LINE_BYTES_MAX} bytes, and no {delimiter!r} yet"
            )
    if rest:
        yield bytes(rest)


def unescape(text: str) -> bytes:
    r"""Return the bytes of a delimiter as typed; \n, \r, \t, \0, \\ and \xNN are those of C.

    Args:
        text: As typed; other characters stand for their UTF-8.
    """
    pieces = []
    at = 0
    for escape in _ESCAPE.finditer(text):
        pieces.append(text[at : escape.start()].encode())
        hexadecimal, letter = escape.groups()
        pieces.append(bytes.fromhex(hexadecimal) if hexadecimal else _ESCAPED[letter])
        at = escape.end()
    return b"".join([*pieces, text[at:].encode()])
