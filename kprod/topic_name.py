"""Legal topic names, and the fault of an illegal one.

Thread-safety: any thread; nothing is kept.
Source: Kafka Topic.validate (clients 4.3.1).
"""

import re

LENGTH_MAX = 249  # Kafka's Topic.MAX_NAME_LENGTH: the log directory's name must fit
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_SHOWN_MAX = 40  # characters; a name may be of any length


def name_fault(name: str) -> str | None:
    """Say why a topic name is invalid.

    Args:
        name: Any text.

    Returns:
        One fault in one sentence, the first that is found; None if the name is legal.
    """
    if not name:
        return "a topic's name must have at least 1 character"
    if name in {".", ".."}:
        return f"topic name {name!r} is reserved: a topic's name is part of a directory's"
    shown = repr(name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}…")
    illegal = _ILLEGAL.search(name)
    if illegal is not None:
        return (
            f"topic name {shown} has {illegal[0]!r} at index {illegal.start()}; only the characters"
            " a-z A-Z 0-9 . _ - are allowed"
        )
    if len(name) > LENGTH_MAX:
        return f"topic name {shown} has {len(name)} characters; at most {LENGTH_MAX} are allowed"
    return None
