"""Writing by a plan: growth, limits, and what a list may do while it is written."""

from collections.abc import Sequence
from typing import Any

import pytest

from kprod._core.wire.wire_plan import FieldPlan, Flag, Kind, StructPlan
from kprod._core.wire.wire_writer import default_bytes, encode
from kprod.errors import LocalProtocolError


def _plan(*fields: FieldPlan, tagged: Sequence[tuple[int, FieldPlan, bytes]] = ()) -> StructPlan:
    return StructPlan("T v0:", fields, tagged, [], flexible=bool(tagged))


def _field(name: str, kind: Kind, default: object, flags: int = 0) -> FieldPlan:
    return FieldPlan(name, "T v0:", kind, flags, default, None)


@pytest.mark.parametrize("size", [0, 1, 251, 252, 253, 507, 508, 509, 100_000])
def test_the_bytes_grow_as_needed(size: int) -> None:
    """Around each doubling, and in one leap."""
    plan = _plan(_field("it", Kind.BYTES, b""))
    payload = bytes(range(256)) * (size // 256 + 1)
    assert encode(plan, {"it": payload[:size]}) == size.to_bytes(4) + payload[:size]


def test_a_structure_of_nothing_is_no_bytes() -> None:
    """And the empty result is a usable one."""
    assert encode(_plan(), {}) == b""
    assert encode(_plan(), {}) + b"x" == b"x"


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384])
def test_a_tagged_field_is_preceded_by_its_size(size: int) -> None:
    """The size is known only afterwards; the bytes move to make room for one, two or three."""
    field = _field("it", Kind.BYTES, None, Flag.NULLABLE | Flag.COMPACT)
    plan = _plan(tagged=[(3, field, default_bytes(field))])
    encoded = encode(plan, {"it": b"x" * size})
    assert encoded[:2] == b"\x01\x03"
    assert encoded.endswith(b"x" * size)
    assert encode(plan, {"it": None}) == encode(plan, {}) == b"\x00"


def test_tags_are_written_in_order() -> None:
    """However the plan was given them."""
    fields = [_field(name, Kind.INT8, 0) for name in "abc"]
    plan = _plan(tagged=[(tag, f, b"\0") for tag, f in zip((2, 0, 1), fields, strict=True)])
    assert encode(plan, {"a": 7, "b": 8, "c": 9}).hex() == "03000108010109020107"


class _Clearing(int):
    """A number that changes a list while it is being written."""

    owner: list[Any]

    def __index__(self) -> int:
        self.owner.clear()
        return 1


def test_a_list_may_change_while_it_is_written() -> None:
    """The count that was written is the count that follows."""
    element = _field("[]", Kind.INT32, 0)
    plan = _plan(FieldPlan("them", "T v0:", Kind.ARRAY, 0, 0, element))
    number = _Clearing(5)
    them = [number, 6, 7]
    number.owner = them
    assert encode(plan, {"them": them}).hex() == "00000003" + "000000050000000600000007"


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (Kind.INT8, -(2**7), 2**7 - 1),
        (Kind.INT16, -(2**15), 2**15 - 1),
        (Kind.INT32, -(2**31), 2**31 - 1),
        (Kind.INT64, -(2**63), 2**63 - 1),
        (Kind.UINT16, 0, 2**16 - 1),
    ],
)
def test_numbers_are_bounded_by_their_kind(kind: Kind, low: int, high: int) -> None:
    """The limits can be written, one further cannot."""
    plan = _plan(_field("it", kind, 0))
    for value in (low, high):
        assert int.from_bytes(encode(plan, {"it": value}), signed=low < 0) == value
    for value in (low - 1, high + 1):
        with pytest.raises(
            LocalProtocolError, match=f"T v0: it: {value} is outside {low} to {high}"
        ):
            encode(plan, {"it": value})


@pytest.mark.parametrize("value", [None, 5, "x", b"x" * 16])
def test_a_uuid_must_be_one(value: object) -> None:
    """Text and bytes that look like one are rejected."""
    with pytest.raises(LocalProtocolError, match="T v0: it: a UUID is wanted"):
        encode(_plan(_field("it", Kind.UUID, 0)), {"it": value})


def test_a_view_with_gaps_is_rejected() -> None:
    """Only contiguous bytes can be written."""
    plan = _plan(_field("it", Kind.RECORDS, b""))
    with pytest.raises(LocalProtocolError, match="contiguous"):
        encode(plan, {"it": memoryview(b"abcdef")[::2]})
