"""The header section of a record: shapes that are taken, and those that are rejected."""

from collections.abc import Iterator
from typing import Any

import pytest

from kprod._core.memory.chunk_pool import ChunkPool
from kprod._core.record.batch_builder import AppendResult, BatchBuilder
from kprod.record.reader import read_records

BASE_MS = 1_700_000_000_000


def _builder() -> BatchBuilder:
    chain = ChunkPool(1 << 20, small_chunk_bytes=1024, large_chunk_bytes=1024).try_chain()
    assert chain is not None
    return BatchBuilder(chain, 1 << 20)


@pytest.mark.parametrize(
    ("headers", "match"),
    [
        ([("h", "text")], "bytes-like or None, got str"),
        ([(b"h", b"v")], "key must be str"),
        (["h"], "must be a pair"),
        ([("h", 5)], "got int"),
    ],
)
def test_bad_headers_are_rejected(headers: object, match: str) -> None:
    """Each wrong shape of a header has its own text, and the batch is as before."""
    builder = _builder()
    with pytest.raises(TypeError, match=match):
        builder.try_append(BASE_MS, None, b"v", headers)  # type: ignore[arg-type]
    assert builder.record_count == 0


@pytest.mark.parametrize(
    "headers",
    [
        [("h", b"1"), ("h", None), ("", b""), ("ключ", b"x" * 200)],
        (("h", b"1"),),
        iter([("h", b"1"), ["n", None]]),
        {"h": b"1", "n": None},
        [["h", bytearray(b"1")], ("v", memoryview(b"view"))],
        [],
        None,
    ],
)
def test_headers_of_all_shapes(headers: Any) -> None:
    """Repeated keys, null and empty values, any bytes-like, lists, iterators and mappings."""
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or ())
    shape = iter(pairs) if isinstance(headers, Iterator) else headers
    builder = _builder()
    assert builder.try_append(BASE_MS, None, b"v", shape) is AppendResult.APPENDED
    (record,) = read_records(b"".join(builder.close()))
    expected = [(name, None if value is None else bytes(value)) for name, value in pairs]
    assert list(record.headers) == expected


def test_a_header_key_that_is_no_text_is_rejected() -> None:
    """A lone surrogate has no UTF-8; the batch is as before."""
    builder = _builder()
    with pytest.raises(ValueError, match="surrogates not allowed"):
        builder.try_append(BASE_MS, None, b"v", [("\ud800", b"v")])
    assert builder.record_count == 0
