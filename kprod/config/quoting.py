"""Shows foreign values in errors: escaped, and truncated.

Thread-safety: pure functions.
"""

SHOWN_CHARACTERS_MAX = 80


def shown(value: object) -> str:
    """Return a value as an error may show it.

    Args:
        value: Anything; its `repr` escapes what could forge a line of a log.

    Returns:
        At most `SHOWN_CHARACTERS_MAX` characters.
    """
    return truncated(repr(value))


def truncated(text: str) -> str:
    """Return a text without what exceeds `SHOWN_CHARACTERS_MAX` characters."""
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 1] + "…"
