"""One line for each change of state: who is connected, who leads what, which producer id counts.

Lines are for people and for programs. A line reads `producer-1 connected node=1 address=…`; the
same is on the log record as `kprod_client`, `kprod_event` and `kprod_fields`, for formatters that
write JSON. All lines go to the logger `kprod.state`.

Invariants.
    Nothing is logged per record, nor per batch that goes its usual way.
    No lock of kprod is held: a logging handler is the application's code.

Thread-safety: any thread.
Source: the standard library's logging, `extra`.
"""

import enum
import logging

_logger = logging.getLogger("kprod.state")


class Event(enum.Enum):
    """What has changed, and how loud that is."""

    CONNECTED = ("connected", logging.INFO)
    DISCONNECTED = ("disconnected", logging.INFO)
    IDLE_CLOSED = ("connection idle, closed", logging.DEBUG)
    THROTTLED = ("throttled beyond reason", logging.WARNING)
    REBOOTSTRAPPED = ("asking bootstrap_servers again", logging.WARNING)
    LEADER_CHANGED = ("leader changed", logging.INFO)
    PRODUCER_ID = ("producer id", logging.INFO)
    EPOCH_ENDED = ("epoch ended", logging.INFO)
    FAILED = ("cannot go on", logging.ERROR)
    CLOSING = ("closing", logging.INFO)
    CLOSED = ("closed", logging.INFO)

    def __init__(self, text: str, level: int) -> None:
        self.text = text
        self.level = level


class StateLog:
    """The lines of one client."""

    __slots__ = ("_client_id",)

    def __init__(self, client_id: str) -> None:
        """Begin.

        Args:
            client_id: The first word of each line.
        """
        self._client_id = client_id

    def note(self, event: Event, **fields: object) -> None:
        """Write a line.

        Args:
            event: What has changed.
            **fields: The particulars, in order.
        """
        if not _logger.isEnabledFor(event.level):
            return
        told = " ".join(f"{name}={_readable(value)}" for name, value in fields.items())
        _logger.log(
            event.level,
            "%s %s%s",
            self._client_id,
            event.text,
            told and f" {told}",
            extra={
                "kprod_client": self._client_id,
                "kprod_event": event.name.lower(),
                "kprod_fields": fields,
            },
        )


def _readable(value: object) -> str:
    """A value without spaces as it is, any other in quotes."""
    text = str(value)
    return text if text and " " not in text else repr(text)
