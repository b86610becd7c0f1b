"""Java's hash code, by its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.java_hash import java_hash


def defined(text: str) -> int:
    """The sum of Java's documentation, over UTF-16 units, in 32 bits with a sign."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2)]
    code = 0
    for unit in units:
        code = (31 * code + unit) % 2**32
    return code - 2**32 if code >= 2**31 else code


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text(text: str) -> None:
    """Lone surrogates and characters beyond the first plane, too."""
    assert java_hash(text) == defined(text)


@pytest.mark.parametrize(
    ("text", "code"), [("polygenelubricants", -(2**31)), ("", 0), ("my-group", -1906497762)]
)
def test_vectors_of_java(text: str, code: int) -> None:
    """As the JDK 17 gives them."""
    assert java_hash(text) == code


def test_only_texts() -> None:
    """Anything else is rejected."""
    for other in (b"g", None, 1):
        with pytest.raises(TypeError):
            java_hash(other)  # type: ignore[arg-type]
