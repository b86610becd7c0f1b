"""Logs that brokers cannot be reached: immediately at first, then less and less often.

A client without any broker must not be silent, and must not log each attempt, which may be twenty a
second. So repeated failures are counted, and the number is logged.

Thread-safety: the client's thread.
"""

from kprod.errors import KprodError
from kprod.metrics.state_log import Event, StateLog
from kprod.model import Node

FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 60_000
LISTENERS_KNOWN_MAX = 1_024  # limits the memory that a peer's metadata can use
_ATTEMPTS_BEFORE_LISTENER = 2  # a single failure may be a broker that restarts


def not_reached(node: Node, reason: str) -> str:
    """Describe that a broker cannot be reached at its advertised address.

    Args:
        node: A node from a Metadata response.
        reason: The reason of the latest failure.

    Returns:
        A clause for a log line or an error text.
    """
    return (
        f"broker {node.node_id} is advertised as {node.address} (advertised.listeners), which"
        f" cannot be reached: {reason}"
    )


class TroubleLog:
    """Logs the unreachable brokers of one client."""

    __slots__ = ("_attempts", "_listeners_known", "_next_ms", "_pause_ms", "_state_log")

    def __init__(self, state_log: StateLog) -> None:
        """Start without failures.

        Args:
            state_log: Writes the lines.
        """
        self._state_log = state_log
        self._attempts = 0  # since the last line
        self._listeners_known: set[str] = set()  # addresses that worked or were logged
        self.calm()

    def calm(self) -> None:
        """A broker is connected: log the next failure immediately."""
        self._attempts = 0
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def nobody_reached(self, error: KprodError, now_ms: int) -> None:
        """Log, if it is time, that an attempt failed while no broker is connected.

        Args:
            error: The reason of the failure.
            now_ms: Monotonic time.
        """
        self._attempts += 1
        if now_ms < self._next_ms:
            return
        self._state_log.note(Event.UNREACHABLE, attempts=self._attempts, reason=error)
        self._attempts = 0
        self._next_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LAST_PAUSE_MS)

    def listener_failed(self, node: Node, failures: int, error: KprodError) -> None:
        """Log, once, that a broker cannot be reached at its advertised address.

        Args:
            node: A node from a Metadata response.
            failures: Consecutive failures of its address.
            error: The reason of the latest failure.
        """
        address, known = node.address, self._listeners_known
        is_rare = failures < _ATTEMPTS_BEFORE_LISTENER
        if is_rare or address in known or len(known) >= LISTENERS_KNOWN_MAX:
            return
        known.add(address)
        self._state_log.note(Event.LISTENER_UNREACHABLE, told=not_reached(node, str(error)))

    def listener_works(self, node: Node) -> None:
        """Record that an address is correct: a later failure means that its broker is down.

        Args:
            node: A node with a usable connection.
        """
        if len(self._listeners_known) < LISTENERS_KNOWN_MAX:
            self._listeners_known.add(node.address)
