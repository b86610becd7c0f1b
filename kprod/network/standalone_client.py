"""A network client without a producer or consumer, for administrative requests and topic readers.

Its owner calls `poll`; there is no thread.

Thread-safety: one thread.
"""

import random
from typing import NamedTuple

from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import ClientConfig
from kprod.network.client import NetworkClient
from kprod.network.connection_context import NetworkIO, system_io
from kprod.network.security import Security
from kprod.timer.timer import Timer


class StandaloneClient(NamedTuple):
    """A client with its metadata and its clock.

    Attributes:
        client: The client, configured for TLS and logins.
        metadata: The metadata, which the client refreshes.
        clock: The client's.
    """

    client: NetworkClient
    metadata: Metadata
    clock: SystemClock

    def close(self) -> None:
        """Close the connections."""
        self.metadata.close()
        self.client.close()


def open_client(
    config: ClientConfig,
    *,
    clock: SystemClock | None = None,
    rng: random.Random | None = None,
    io: NetworkIO | None = None,
) -> StandaloneClient:
    """Create a client; it connects on first use of a node.

    Args:
        config: The client settings.
        clock: The clock; the system's by default.
        rng: Random numbers for jitter.
        io: Sockets, selector and resolver; the system's by default.

    Returns:
        The client, which the caller must close.

    Raises:
        ConfigError: A certificate file or text cannot be used, or an extra is not installed.
    """
    clock = clock or SystemClock()
    rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
    settings = config.network_settings()
    security = Security(config.security)  # before any socket is opened, since it may raise
    metadata = Metadata(config.metadata_settings(), rng=rng)
    client = NetworkClient(
        settings,
        metadata,
        io or system_io(settings),
        clock=clock,
        timer=Timer(clock.now_ms()),
        rng=rng,
        security=security,
    )
    return StandaloneClient(client, metadata, clock)
