"""Handles open producers and consumers when their process forks or exits.

A fork copies neither threads nor the right to use the parent's connections; so the child's copy
rejects calls instead of filling a buffer that nobody sends, and its futures fail instead of never
being settled. An interpreter that exits gives its producers some time to send their records, and
reports how many were lost; consumers are closed in the same time.

Nothing here starts a thread: an interpreter that is ending gives none (from Python 3.12 on).

Thread-safety: any thread; no lock is taken, since a child inherits locks without their holders.
Source: librdkafka #1674 and kafka-python #1098 for what happens otherwise.
"""

import atexit
import os
import weakref
from collections.abc import Callable
from typing import Protocol

from kprod.clock import Deadline
from kprod.guarded_log import guarded_logger
from kprod.wording import plural

EXIT_FLUSH_S = 5.0  # what an exiting interpreter may wait for unsent records, of all producers

_logger = guarded_logger(__name__)


class Closable(Protocol):
    """A producer or consumer, as far as its end is concerned."""

    client_id: str

    def close_soon(self) -> Callable[[], int]:
        """Start to end; return a function that counts undelivered records."""

    def close_at_exit(self, timeout: float) -> int:
        """End, by the public object's `close` if there is still one."""

    def reject_in_child(self) -> None:
        """Reject all further calls, since this is a forked child."""


# Not a WeakSet: another thread may close a client during an iteration, which raises an error for a
# set. A list of a dict's values is created atomically.
_open: "weakref.WeakValueDictionary[int, Closable]" = weakref.WeakValueDictionary()


def watch(client: Closable) -> None:
    """Register a client, to be closed at exit.

    Args:
        client: Open.
    """
    _open[id(client)] = client


def unwatch(client: Closable) -> None:
    """Unregister a client.

    Args:
        client: Any client.
    """
    if _open.get(id(client)) is client:
        _open.pop(id(client), None)


def still_open() -> list[Closable]:
    """All that are looked after, whatever other threads do meanwhile."""
    return [client for ref in _open.valuerefs() if (client := ref()) is not None]


def _reject_in_child() -> None:
    for client in still_open():
        client.reject_in_child()


def _close_at_exit() -> None:
    """Close all within one limit; Ctrl-C ends the waiting, not the counting."""
    deadline = Deadline(EXIT_FLUSH_S)
    interruption: BaseException | None = None
    counted = [(client, client.close_soon()) for client in still_open()]
    for client, count in counted:
        try:
            client.close_at_exit(deadline.wait_s())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the count is told
            interruption = error
            deadline = Deadline(0)
            try:
                client.close_at_exit(0)
            except BaseException as again:  # noqa: BLE001 - who presses Ctrl-C presses it twice
                interruption = again
        try:
            _tell_undelivered(client, count())
        except BaseException as error:  # noqa: BLE001 - Ctrl-C during the line; the others continue
            interruption = error
            deadline = Deadline(0)
    if interruption is not None:
        raise interruption


def _tell_undelivered(client: Closable, undelivered: int) -> None:
    if undelivered:
        _logger.warning(
            "%s: %d %s not delivered within %s s at exit; call close() or flush()",
            client.client_id,
            undelivered,
            plural(undelivered, "record was", "records were"),
            EXIT_FLUSH_S,
        )


os.register_at_fork(after_in_child=_reject_in_child)
atexit.register(_close_at_exit)
