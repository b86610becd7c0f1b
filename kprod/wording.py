"""Words of texts that depend on a number.

Thread-safety: any thread; nothing is kept.
"""


def plural(count: int, one: str, many: str | None = None) -> str:
    """Choose the words that go with a count.

    Args:
        count: The number.
        one: The words for exactly 1, such as "record" or "record was".
        many: The words for any other count; None adds an "s" to `one`.

    Returns:
        The words, without the count: a caller writes it in its own form.
    """
    if count == 1:
        return one
    return f"{one}s" if many is None else many


def counted(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its words.

    Args:
        count: The number.
        one: As for `plural`.
        many: As for `plural`.

    Returns:
        "1 record", "2 records", and so on.
    """
    return f"{count} {plural(count, one, many)}"
