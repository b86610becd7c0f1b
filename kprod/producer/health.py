"""Whether a producer can do its work, for probes of whatever supervises a service.

Thread-safety: immutable values.
"""

from typing import NamedTuple


class ProducerHealth(NamedTuple):
    """The state of a producer as it was when somebody asked.

    Attributes:
        is_alive: Records are taken, and the sender's thread runs. False is final: only another
            producer, so mostly another process, helps. Of use to a liveness probe.
        is_connected: A connection to a broker can be used. False may pass: before the first
            connection, and while brokers cannot be reached. Of use to a readiness probe.
        reason: Why one of them is False; None while both are True.
    """

    is_alive: bool
    is_connected: bool
    reason: str | None
