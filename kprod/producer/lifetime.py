"""What happens to open producers when their process forks or ends.

A fork copies neither threads nor the right to use the parent's connections, so the child's copy
refuses at once instead of filling a buffer that nobody sends. An interpreter that exits gives each
producer a while to send what it has, and says how much was lost.

Thread-safety: any thread.
Source: librdkafka #1674 and kafka-python #1098 for what happens otherwise.
"""

import atexit
import logging
import os
import weakref
from typing import Protocol

EXIT_FLUSH_S = 5.0  # what an exiting interpreter may wait for unsent records

_logger = logging.getLogger(__name__)


class Closable(Protocol):
    """A producer, as far as its end is concerned."""

    client_id: str

    def close(self, timeout: float | None = None) -> int:
        """Flush and end; return how many records were not delivered."""

    def refuse_in_child(self) -> None:
        """Take no more records, since this is a forked child."""


_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()


def watch(producer: Closable) -> None:
    """Look after a producer until it is closed.

    Args:
        producer: Open.
    """
    _open.add(producer)


def unwatch(producer: Closable) -> None:
    """Look after it no longer.

    Args:
        producer: Any.
    """
    _open.discard(producer)


def _refuse_in_child() -> None:
    for producer in list(_open):
        producer.refuse_in_child()


def _close_at_exit() -> None:
    for producer in list(_open):
        undelivered = producer.close(EXIT_FLUSH_S)
        if undelivered:
            _logger.warning(
                "%s: %d records were not delivered within %s s at exit; call close() or flush()",
                producer.client_id,
                undelivered,
                EXIT_FLUSH_S,
            )


os.register_at_fork(after_in_child=_refuse_in_child)
atexit.register(_close_at_exit)
