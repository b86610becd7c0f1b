"""A password, kept from logs, errors, pickles and dumps.

Nothing prints a secret by accident: `repr`, `str`, f-strings and `dataclasses.asdict` show `***`,
and pickling raises. Only `reveal` returns the text, which is easy to search for.

Thread-safety: immutable.
"""

from typing import NoReturn, Self


class Secret:
    """A text that prints as `***`.

    Thread-safety: immutable.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Wrap a text.

        Args:
            text: The secret; any string.
        """
        self._text = text

    def reveal(self) -> str:
        """Return the text itself; for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        """Return three stars."""
        return "***"

    def __format__(self, format_spec: str) -> str:
        """Return three stars, whatever the format."""
        return "***"

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, Secret):
            return NotImplemented
        from hmac import compare_digest  # noqa: PLC0415 - loads OpenSSL, and few compare secrets

        # An error of the encoding would have the whole text.
        ours = self._text.encode("utf-8", "surrogatepass")
        return compare_digest(ours, other._text.encode("utf-8", "surrogatepass"))

    def __hash__(self) -> int:
        """Hash the text, consistent with equality."""
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        """Return itself: it is immutable."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return itself: it is immutable, and `dataclasses.asdict` copies deeply."""
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raise, since a secret is never pickled."""
        raise TypeError("a Secret cannot be pickled: its text would travel in the clear")
