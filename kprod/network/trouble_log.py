"""Lines about brokers that cannot be reached: the first at once, further ones less and less often.

A client without any broker must not be silent, and must not write a line for each attempt either:
twenty a second would fill a disk. So what repeats is counted, and the count is told.

Thread-safety: one thread, the client's.
"""

from kprod.errors import KprodError
from kprod.metrics.state_log import Event, StateLog
from kprod.model import Node

FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 60_000
LISTENERS_KNOWN_MAX = 1_024  # a peer decides how many there are
_ATTEMPTS_BEFORE_LISTENER = 2  # one may be a broker that restarts


def not_reached(node: Node, reason: str) -> str:
    """Say that a broker cannot be reached where it says that it is.

    Args:
        node: As a Metadata answer advertises it.
        reason: Why the newest attempt failed.

    Returns:
        A clause for a line of the log or an error.
    """
    return (
        f"broker {node.node_id} is advertised as {node.address} (advertised.listeners), which"
        f" cannot be reached: {reason}"
    )


class TroubleLog:
    """What one client says of brokers that it cannot reach."""

    __slots__ = ("_attempts", "_listeners_known", "_next_ms", "_pause_ms", "_state_log")

    def __init__(self, state_log: StateLog) -> None:
        """Start without trouble.

        Args:
            state_log: Where lines go.
        """
        self._state_log = state_log
        self._attempts = 0  # since the newest line
        self._listeners_known: set[str] = set()  # addresses that worked, or that were told
        self.calm()

    def calm(self) -> None:
        """A broker can be used: the next trouble is told at once."""
        self._attempts = 0
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def nobody_reached(self, error: KprodError, now_ms: int) -> None:
        """Tell, if it is time, that an attempt failed while no broker is connected.

        Args:
            error: Why it failed.
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
        """Tell, once, that a broker cannot be reached where brokers say that it is.

        Args:
            node: As a Metadata answer advertises it.
            failures: Of its address, in a row.
            error: Why the newest attempt failed.
        """
        address, known = node.address, self._listeners_known
        is_rare = failures < _ATTEMPTS_BEFORE_LISTENER
        if is_rare or address in known or len(known) >= LISTENERS_KNOWN_MAX:
            return
        known.add(address)
        self._state_log.note(Event.LISTENER_UNREACHABLE, told=not_reached(node, str(error)))

    def listener_works(self, node: Node) -> None:
        """Note that an address is right: when it fails later, its broker is down.

        Args:
            node: That can be used.
        """
        if len(self._listeners_known) < LISTENERS_KNOWN_MAX:
            self._listeners_known.add(node.address)
