"""Errors of the broker for clients: an error code of the protocol, and a sentence.

Thread-safety: immutable.
"""

from collections.abc import Mapping

from kprod.errors import KprodError
from kprod.protocol.error_table import ErrorCode

TEXT_CHARACTERS_MAX = 1_000
"""A limit: far below the 32,767 bytes that a string of the protocol may have, whatever the
characters, so that a response with a text in it can always be written."""


def shortened(text: str) -> str:
    """A text that fits into a response, and one that a log can show.

    Args:
        text: A text of any length; it may repeat what a client sent.

    Returns:
        The text, or its beginning with an ellipsis.
    """
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    return text[: TEXT_CHARACTERS_MAX - 1] + "…"


class Rejected(KprodError):
    """A request, or one part of it, is answered with an error code.

    Attributes:
        code: The protocol's error code.
        text: Goes to the client where the response has a field for it; at most
            `TEXT_CHARACTERS_MAX` characters.
    """

    def __init__(self, code: int, text: str = "") -> None:
        """Create the error.

        Args:
            code: Not `NONE`.
            text: Why; a longer one is cut off.
        """
        text = shortened(text)
        super().__init__(code, text)
        self.code: int = int(code)
        self.text = text

    def __str__(self) -> str:
        """The code's name and the text."""
        return f"{ErrorCode(self.code).name}: {self.text}"


class RejectedByLog(Rejected):
    """A batch came as far as the partition's log, and breaks a rule of it.

    Attributes:
        record_texts: Why, by the index of a record in its batch, where single records are wrong
            (KIP-467).
    """

    def __init__(
        self, code: int, text: str = "", record_texts: Mapping[int, str] | None = None
    ) -> None:
        """Create the error.

        Args:
            code: Not `NONE`.
            text: Why.
            record_texts: Why, by record; none if the batch is wrong as a whole.
        """
        super().__init__(code, text)
        self.record_texts: dict[int, str] = {
            index: shortened(it) for index, it in (record_texts or {}).items()
        }


class DirectoryRejected(KprodError):
    """A directory cannot be used: it is locked, of another format, or of another cluster."""
