"""What the connections of one client share of its security.

Thread-safety: one thread, the client's; made where the client is made.
"""

from typing import TYPE_CHECKING

from kprod.config import SecurityConfig
from kprod.model import Node
from kprod.network.handshake import Handshake
from kprod.network.transport import Transport

if TYPE_CHECKING:
    from kprod.network.tls_transport import TlsTransport


class Security:
    """Encrypts connections and makes their handshakes."""

    __slots__ = ("_config", "_context")

    def __init__(self, config: SecurityConfig | None = None) -> None:
        """Load what certificates there are.

        Args:
            config: None for no security at all.

        Raises:
            ConfigError: A file or text of certificates cannot be used.
        """
        self._config = config or SecurityConfig()
        self._context = None
        if self._config.uses_tls:
            from kprod.network.tls_context import TlsContext  # noqa: PLC0415 - loads OpenSSL

            self._context = TlsContext(self._config)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._context is not None

    def encrypted(self, below: Transport, node: Node) -> "TlsTransport | None":
        """Put TLS over a transport.

        Args:
            below: Connecting to the node.
            node: Its certificate must be for its host, as it was given or advertised.

        Returns:
            None without TLS.
        """
        if self._context is None:
            return None
        from kprod.network.tls_errors import TlsPeer  # noqa: PLC0415 - loads OpenSSL
        from kprod.network.tls_transport import TlsTransport  # noqa: PLC0415

        peer = TlsPeer(node.address, node.host, self._config)
        return TlsTransport(below, self._context.current(), peer)

    def handshake(self) -> Handshake:
        """Make the steps of a new connection."""
        return Handshake()
