"""One line for each change of state: connections, leaders, producer ids.

Lines are for people and for programs. A line reads `producer-1 connected node=1 address=…`; the
same is on the log record as `kprod_client`, `kprod_event` and `kprod_fields`, for formatters that
write JSON. All lines go to the logger `kprod.state`.

A simulation counts the changes: `on_note` is called for each, whatever the logger's level is.

Invariants.
    Nothing is logged for each record, nor for batches without an incident. No lock of kprod is
    held, since logging handlers are application code.

Thread-safety: any thread.
Source: the standard library's logging, `extra`.
"""

import enum
import logging
from collections.abc import Callable, Mapping

from kprod.guarded_log import guarded_logger

_logger = guarded_logger("kprod.state")


class Event(enum.Enum):
    """A kind of change, and the level of its line."""

    CONNECTED = ("connected", logging.INFO, "A connection to a broker can be used.")
    REAUTHENTICATED = (
        "logged in again",
        logging.DEBUG,
        "A login that a broker limits was made again, on the same connection.",
    )
    TOKEN_REFRESHED = ("token refreshed", logging.DEBUG, "The token provider gave another token.")
    TOKEN_FAILED = (
        "no token",
        logging.WARNING,
        "The token provider failed; again after pauses of 1 s to 60 s.",
    )
    DISCONNECTED = (
        "disconnected",
        logging.INFO,
        "A connection, or the attempt, failed or was closed; in a row the 1st, 2nd, 4th, 8th ...",
    )
    UNREACHABLE = (
        "no broker can be reached",
        logging.WARNING,
        "An attempt failed while no broker is connected; again after pauses of 1 s to 60 s.",
    )
    LISTENER_UNREACHABLE = (
        "advertised address cannot be reached",
        logging.WARNING,
        "A broker's `advertised.listeners` never worked from this machine; logged once.",
    )
    IDLE_CLOSED = (
        "connection idle, closed",
        logging.DEBUG,
        "Nobody used a connection for `connections_max_idle_ms`.",
    )
    THROTTLED = (
        "throttled beyond reason",
        logging.WARNING,
        "A broker asked for a longer throttle time than the client accepts.",
    )
    REBOOTSTRAPPED = (
        "asking bootstrap_servers again",
        logging.WARNING,
        "No known broker can be used.",
    )
    LEADER_CHANGED = (
        "leader changed",
        logging.INFO,
        "Partitions of a topic are led by another broker; −1 is none.",
    )
    PRODUCER_ID = ("producer id", logging.INFO, "A broker gave the id that makes sends idempotent.")
    EPOCH_ENDED = (
        "epoch ended",
        logging.INFO,
        "A partition's sequences cannot continue; all start at 0 in the next epoch.",
    )
    FAILED = ("cannot continue", logging.ERROR, "An error that no record can be sent after.")
    CLOSING = ("closing", logging.INFO, "No more records are taken.")
    CLOSED = ("closed", logging.INFO, "Everything is settled, connections are closed.")

    def __init__(self, text: str, level: int, meaning: str) -> None:
        self.text = text
        self.level = level
        self.meaning = meaning


OnNote = Callable[[Event, Mapping[str, object]], object]
"""Called with each change and its particulars, on the thread that notes it; must not raise."""


class StateLog:
    """The lines of one client."""

    __slots__ = ("_client_id", "_on_note")

    def __init__(self, client_id: str, on_note: OnNote | None = None) -> None:
        """Create a log for one client.

        Args:
            client_id: The first word of each line.
            on_note: Called with each change, even if its line is not written; None for none.
        """
        self._client_id = client_id
        self._on_note = on_note

    def note(self, event: Event, **fields: object) -> None:
        """Write a line.

        Args:
            event: The kind of change.
            **fields: The particulars, in order.
        """
        if self._on_note is not None:
            self._on_note(event, fields)
        if not _logger.is_enabled_for(event.level):
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
    """A value without spaces as it is, any other in quotes, control characters escaped."""
    text = str(value)
    return text if text and " " not in text and text.isprintable() else repr(text)
