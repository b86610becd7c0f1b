"""Reading by a plan: every kind at its limits, and inputs of any bytes-like type."""

import array
import math
from typing import Any
from uuid import UUID

import pytest

from kprod._core.wire.wire_plan import FieldPlan, Flag, Kind, StructPlan
from kprod._core.wire.wire_reader import decode, decode_prefix
from kprod._core.wire.wire_writer import encode
from kprod.errors import RemoteProtocolError


def _one(kind: Kind, flags: int = 0) -> StructPlan:
    return StructPlan("T v0:", [FieldPlan("it", "T v0:", kind, flags, None, None)], [], [], False)


@pytest.mark.parametrize(
    ("kind", "encoded", "value"),
    [
        (Kind.BOOL, "00", False),
        (Kind.BOOL, "01", True),
        (Kind.BOOL, "ff", True),
        (Kind.INT8, "80", -128),
        (Kind.INT8, "7f", 127),
        (Kind.INT16, "8000", -32768),
        (Kind.INT32, "80000000", -(2**31)),
        (Kind.INT32, "7fffffff", 2**31 - 1),
        (Kind.INT64, "8000000000000000", -(2**63)),
        (Kind.INT64, "7fffffffffffffff", 2**63 - 1),
        (Kind.UINT16, "ffff", 65535),
        (Kind.FLOAT64, "3ff8000000000000", 1.5),
        (Kind.FLOAT64, "fff0000000000000", -math.inf),
        (Kind.STRING, "0002c3a4", "ä"),
        (Kind.BYTES, "00000002c3a4", b"\xc3\xa4"),
        (
            Kind.UUID,
            "00112233445566778899aabbccddeeff",
            UUID(int=0x00112233445566778899AABBCCDDEEFF),
        ),
        (Kind.UUID, "00" * 16, UUID(int=0)),
    ],
)
def test_values_at_their_limits(kind: Kind, encoded: str, value: Any) -> None:
    """Read as written by hand, and written as read."""
    got = decode(_one(kind), bytes.fromhex(encoded))["it"]
    assert got == value
    assert type(got) is type(value)
    assert decode(_one(kind), encode(_one(kind), {"it": got})) == {"it": value}


def test_a_read_uuid_is_like_any_other() -> None:
    """Hash, text and attributes are those of one that was constructed."""
    made = UUID("00112233-4455-6677-8899-aabbccddeeff")
    read = decode(_one(Kind.UUID), made.bytes)["it"]
    assert (hash(read), str(read), read.is_safe) == (hash(made), str(made), made.is_safe)
    assert repr(read) == repr(made)


@pytest.mark.parametrize("kind", [Kind.STRING, Kind.BYTES, Kind.RECORDS])
@pytest.mark.parametrize("flags", [Flag.NULLABLE, Flag.NULLABLE | Flag.COMPACT])
def test_null_is_none(kind: Kind, flags: Flag) -> None:
    """With each kind of length."""
    plan = _one(kind, flags)
    encoded = encode(plan, {"it": None})
    assert encoded == (
        b"\x00" if Flag.COMPACT in flags else b"\xff" * (2 if kind is Kind.STRING else 4)
    )
    assert decode(plan, encoded) == {"it": None}


def test_any_contiguous_buffer_can_be_read() -> None:
    """Wider items count as their bytes, in `records` too."""
    plan = _one(Kind.RECORDS)
    source = memoryview(array.array("I", [int.from_bytes(b"\0\0\0\4", "little")] * 2))
    encoded = encode(plan, {"it": b"abcd"})
    wide = array.array("I")
    wide.frombytes(encoded)
    assert bytes(decode(plan, memoryview(wide))["it"]) == b"abcd"
    assert bytes(decode(plan, source)["it"]) == bytes(source.cast("B")[4:])


def test_a_prefix_ends_where_its_structure_does() -> None:
    """The bytes after it are not read."""
    assert decode_prefix(_one(Kind.INT16), b"\x00\x05rest") == ({"it": 5}, 2)
    with pytest.raises(RemoteProtocolError, match="T v0 ends at byte 2, but 4 bytes follow"):
        decode(_one(Kind.INT16), b"\x00\x05rest")


def test_an_object_that_is_no_buffer_is_a_mistake_of_the_caller() -> None:
    """Not the peer's."""
    with pytest.raises(TypeError):
        decode(_one(Kind.INT16), "text")  # type: ignore[arg-type]
