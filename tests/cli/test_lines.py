"""Lines of input to records."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.cli import lines as subject
from kprod.cli.lines import LineFormat, split_lines, unescape
from kprod.errors import RecordTooLarge


@given(
    content=st.binary(max_size=60).map(lambda raw: raw.replace(b"\xff", b";")),
    delimiter=st.sampled_from([b"\n", b";", b";;", b"\0;\0"]),
    piece_bytes=st.integers(1, 20),
)
def test_cutting_does_not_depend_on_the_pieces(
    content: bytes, delimiter: bytes, piece_bytes: int
) -> None:
    """However the input comes, lines are those of `bytes.split`."""
    stream = io.BytesIO(content)
    expected = content.split(delimiter)
    if not expected[-1]:
        expected.pop()
    assert list(split_lines(lambda _: stream.read(piece_bytes), delimiter)) == expected


def test_endless_lines_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input without a delimiter does not fill the memory."""
    monkeypatch.setattr(subject, "LINE_BYTES_MAX", 1_000)
    with pytest.raises(RecordTooLarge, match="more than 1000 bytes"):
        list(split_lines(lambda size: b"x" * min(size, 400), b"\n"))


@pytest.mark.parametrize(
    ("line_format", "line", "expected"),
    [
        (LineFormat(), b"a:b", (None, b"a:b")),
        (LineFormat(key=b"k"), b"a", (b"k", b"a")),
        (LineFormat(key_delimiter=b":"), b"a:b:c", (b"a", b"b:c")),
        (LineFormat(key_delimiter=b":"), b":b", (b"", b"b")),
        (LineFormat(key_delimiter=b":"), b"ab", (None, b"ab")),
        (LineFormat(key=b"k", key_delimiter=b"::"), b"a:b", (b"k", b"a:b")),
        (LineFormat(key_delimiter=b":", is_empty_null=True), b":", (None, None)),
        (LineFormat(is_empty_null=True), b"", (None, None)),
        (LineFormat(), b"", (None, b"")),
    ],
)
def test_keys_and_values(
    line_format: LineFormat, line: bytes, expected: tuple[bytes | None, bytes | None]
) -> None:
    """The first delimiter counts; without it a line is a value."""
    record = line_format.parse(line)
    assert (record.key, record.value) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", b""),
        (":", b":"),
        (r"\t", b"\t"),
        (r"\n\r\0", b"\n\r\0"),
        (r"\x00\xFf;", b"\x00\xff;"),
        (r"\\n", rb"\n"),
        (r"\q", rb"\q"),
        ("→", "→".encode()),
    ],
)
def test_escapes(typed: str, expected: bytes) -> None:
    """Untypable characters are written as in C; other backslashes are kept."""
    assert unescape(typed) == expected
