"""Texts that brokers send, made fit for an error or a log line.

A host name, a topic name or an error message of a peer may have any length and contain any
characters: line breaks that forge log lines, sequences that control a terminal. Every text of a
peer is escaped here before it is shown.

Thread-safety: pure functions.
"""

PEER_TEXT_LENGTH_MAX = 256
_CUT = "…"


def peer_text(text: str) -> str:
    """Make a peer's text safe to print.

    Args:
        text: A text of any length.

    Returns:
        At most 256 characters. Control characters, line breaks and other invisible characters are
        escaped as in a string literal; a truncated text ends in an ellipsis.
    """
    if len(text) <= PEER_TEXT_LENGTH_MAX and text.isprintable():
        return text
    shown = "".join(map(_escaped, text[: PEER_TEXT_LENGTH_MAX + 1]))
    if len(shown) <= PEER_TEXT_LENGTH_MAX:
        return shown
    return shown[: PEER_TEXT_LENGTH_MAX - len(_CUT)] + _CUT


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
