"""Plans as such: what cannot be planned, and unsigned varints."""

import pytest

from kprod._core.wire.wire_plan import FieldPlan, Flag, Kind, StructPlan, encode_uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varints_by_hand(value: int, encoded: str) -> None:
    """Seven bits a byte, lowest first."""
    assert encode_uvarint(value).hex() == encoded


def test_the_least_size_of_a_structure_is_the_sum_of_its_fields() -> None:
    """It bounds the count of elements that remaining bytes can hold."""
    number = FieldPlan("number", "Thing v0:", Kind.INT64, 0, 0, None)
    text = FieldPlan("text", "Thing v0:", Kind.STRING, Flag.COMPACT, "", None)
    plan = StructPlan("Thing v0:", [number, text], [], [], flexible=True)
    assert (number.size_min, text.size_min, plan.size_min) == (8, 1, 10)
    assert number.path == "Thing v0: number"
    assert plan.where == "Thing v0"


def test_an_array_of_nothing_cannot_be_planned() -> None:
    """Elements of no bytes would have no bound on their number."""
    nothing = StructPlan("Thing v0: things", [], [], [], flexible=False)
    element = FieldPlan("[]", "Thing v0: things", Kind.STRUCT, 0, 0, nothing)
    things = FieldPlan("things", "Thing v0:", Kind.ARRAY, 0, 0, element)
    with pytest.raises(ValueError, match="Thing v0: things: elements of no bytes"):
        StructPlan("Thing v0:", [things], [], [], flexible=False)
