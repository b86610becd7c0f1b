"""Zigzag varints: the vectors of the format page, and nothing past their width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core import varint
from kprod.errors import CorruptRecord

VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    -2: "03",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}
VARLONGS = {2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("value", "encoded"), VARINTS.items())
def test_varint_vectors(value: int, encoded: str) -> None:
    """Both directions agree with the page."""
    assert varint.encode_varint(value).hex() == encoded
    assert varint.decode_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), (VARINTS | VARLONGS).items())
def test_varlong_vectors(value: int, encoded: str) -> None:
    """Small numbers are the same in both widths; large ones take up to ten bytes."""
    assert varint.encode_varlong(value).hex() == encoded
    assert varint.decode_varlong(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varlong_round_trip_with_a_tail(value: int, tail: bytes) -> None:
    """What follows the number is left alone."""
    encoded = varint.encode_varlong(value)
    assert varint.decode_varlong(encoded + tail) == (value, len(encoded))


@pytest.mark.parametrize(
    "encoded", ["", "80", "ffffffff", "ffffffffff01", "ffffffff1f", "ffffffff7f"]
)
def test_what_is_not_a_varint_is_refused(encoded: str) -> None:
    """Cut off, too long, or with bits past the 32nd."""
    with pytest.raises(CorruptRecord):
        varint.decode_varint(bytes.fromhex(encoded))


@pytest.mark.parametrize("encoded", ["ff" * 9, "ff" * 9 + "02", "80" * 10 + "00"])
def test_what_is_not_a_varlong_is_refused(encoded: str) -> None:
    """The tenth byte may carry one bit."""
    with pytest.raises(CorruptRecord):
        varint.decode_varlong(bytes.fromhex(encoded))
