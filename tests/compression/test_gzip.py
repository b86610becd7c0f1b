"""gzip: members, levels, checksums."""

import gzip as stdlib_gzip
import random
import sys
import zlib

import pytest
from zlib_ng import zlib_ng

from kprod.compression import gzip
from kprod.errors import CorruptRecord

pytestmark = pytest.mark.usefixtures("writer")

LIMIT_BYTES = 1 << 20


@pytest.fixture(params=[zlib.compress, zlib_ng.compress], ids=["zlib", "zlib-ng"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write by either library."""
    monkeypatch.setattr(gzip, "_write", request.param)


def test_zlib_ng_writes_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the standard library does."""
    assert gzip._writer() is zlib_ng.compress
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    assert gzip._writer() is zlib.compress


@pytest.mark.parametrize("level", [-1, *range(1, 10)])
def test_every_level(level: int) -> None:
    """Members of either library, read by zlib and by kprod."""
    rng = random.Random(level)
    for size in (0, 1, 5_000, 300_000):
        payload = rng.randbytes(size // 2) + b"a record " * (size // 18)
        packed = gzip.compress(memoryview(payload), level)
        assert zlib.decompress(packed, wbits=31) == payload
        assert gzip.decompress(packed, LIMIT_BYTES) == payload


def test_header_and_level() -> None:
    """One ordinary member; the level reaches zlib."""
    payload = b"some record " * 2_000
    fast, best = gzip.compress(payload, 1), gzip.compress(payload, 9)
    assert fast[:3] == best[:3] == b"\x1f\x8b\x08"
    assert len(best) < len(fast)
    assert stdlib_gzip.decompress(fast) == stdlib_gzip.decompress(best) == payload


def test_several_members() -> None:
    """Members after one another read as one, as RFC 1952 has it, also when they span slices."""
    first, second = random.Random(4).randbytes(2_200_000), b"second"
    packed = gzip.compress(first, 1) + gzip.compress(b"", 1) + gzip.compress(second, 9)
    assert gzip.decompress(packed, 4 << 20) == first + second


def test_member_with_optional_fields() -> None:
    """A file name, a comment and extra bytes in the header change nothing."""
    plain = gzip.compress(b"payload", 6)
    fields = b"\x03\x00abc" + b"name\x00" + b"comment\x00"
    packed = plain[:3] + b"\x1c" + plain[4:10] + fields + plain[10:]
    assert gzip.decompress(packed, LIMIT_BYTES) == b"payload"


def test_too_many_members() -> None:
    """A block of endless empty members is rejected rather than followed."""
    with pytest.raises(CorruptRecord, match="128 members"):
        gzip.decompress(gzip.compress(b"", 1) * 129, LIMIT_BYTES)


@pytest.mark.parametrize("place", [-1, -5])
def test_checksum_and_size_are_checked(place: int) -> None:
    """A wrong trailer is corrupt."""
    packed = bytearray(gzip.compress(b"payload", 6))
    packed[place] ^= 1
    with pytest.raises(CorruptRecord, match="gzip"):
        gzip.decompress(packed, LIMIT_BYTES)


@pytest.mark.parametrize("wbits", [15, -15])
def test_other_wrappers(wbits: int) -> None:
    """Zlib's own wrapper and raw deflate are not gzip."""
    with pytest.raises(CorruptRecord, match="gzip"):
        gzip.decompress(zlib.compress(b"payload", wbits=wbits), LIMIT_BYTES)


def test_bound_across_members() -> None:
    """All members count against one bound."""
    packed = gzip.compress(bytes(600_000), 9) * 2
    with pytest.raises(CorruptRecord, match="1048576 bytes"):
        gzip.decompress(packed, LIMIT_BYTES)
