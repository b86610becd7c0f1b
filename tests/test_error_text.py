"""Errors in words: kind and text, whatever the error's class does."""

from kprod.error_text import error_text


class Wordless(Exception):
    """Raises when it is asked for a text."""

    def __str__(self) -> str:
        """Raise."""
        raise RuntimeError

    __repr__ = __str__


def test_kind_and_text() -> None:
    """On one line, with what cannot be printed escaped."""
    assert error_text(ValueError("a\nb")) == "ValueError: a\\nb"


def test_a_long_text_is_cut() -> None:
    """A text may hold a whole record."""
    assert len(error_text(ValueError("x" * 100_000))) < 1_000


def test_a_class_that_has_no_text() -> None:
    """Its own error is named."""
    assert error_text(Wordless()) == "Wordless: its text raised RuntimeError"
