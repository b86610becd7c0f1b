"""The health of a producer, for liveness and readiness probes.

Thread-safety: immutable values.
"""

from typing import NamedTuple


class ProducerHealth(NamedTuple):
    """A snapshot of a producer's health.

    Attributes:
        is_alive: Whether records are accepted and the sender's thread runs. False is final: a new
            producer is needed, usually a new process. Use it for a liveness probe.
        is_connected: Whether a connection to a broker is usable. False may be temporary: before the
            first connection, or while brokers are unreachable. Use it for a readiness probe.
        reason: The reason why one of them is False; None if both are True.
    """

    is_alive: bool
    is_connected: bool
    reason: str | None
