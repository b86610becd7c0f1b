"""The security settings and state that the connections of one client share.

Thread-safety: the client's thread; created where the client is created.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kprod.config import SecurityConfig
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.framing import RESPONSE_BYTES_MAX_UNAUTHENTICATED, FrameReader
from kprod.network.handshake import ApiVersionsStep, Handshake
from kprod.network.transport import Transport

if TYPE_CHECKING:
    from kprod.network.sasl.login_support import LoginSupport
    from kprod.network.sasl.sasl_logins import SaslLogins
    from kprod.network.tls_transport import TlsTransport


class Security:
    """Encrypts connections and creates their handshakes.

    Attributes:
        logins: The logins of a client with SASL; None before `attach`, and without SASL.
    """

    __slots__ = ("_config", "_context", "logins")

    def __init__(self, config: SecurityConfig | None = None) -> None:
        """Load the configured certificates.

        Args:
            config: The settings; None for plain connections.

        Raises:
            ConfigError: A certificate file or text cannot be used, or an extra is not installed.
        """
        self._config = config or SecurityConfig()
        self._context = None
        self.logins: SaslLogins | None = None
        if self._config.uses_tls:
            from kprod.network.tls_context import TlsContext  # noqa: PLC0415 - loads OpenSSL

            self._context = TlsContext(self._config)
        if self._config.sasl_mechanism == "GSSAPI":
            from kprod.network.sasl.gss import load_gssapi  # noqa: PLC0415 - needs an extra

            load_gssapi()

    def attach(self, support: "LoginSupport") -> None:
        """Create the logins, with the parts of the client that they use.

        Args:
            support: Parts of the client.
        """
        if self._config.uses_sasl:
            from kprod.network.sasl.sasl_logins import SaslLogins  # noqa: PLC0415 - few log in

            self.logins = SaslLogins(self._config, support)

    @property
    def uses_tls(self) -> bool:
        """Whether connections use TLS."""
        return self._context is not None

    @property
    def principal(self) -> str:
        """User and mechanism, for texts; empty without a login."""
        return "" if self.logins is None else self.logins.principal

    def encrypted(self, below: Transport, node: Node) -> "TlsTransport | None":
        """Add TLS to a transport.

        Args:
            below: A transport that is connecting to the node.
            node: The node, whose host the certificate must match, as configured or advertised.

        Returns:
            The TLS transport; None without TLS.
        """
        if self._context is None:
            return None
        from kprod.network.tls_errors import TlsPeer  # noqa: PLC0415 - loads OpenSSL
        from kprod.network.tls_transport import TlsTransport  # noqa: PLC0415

        peer = TlsPeer(node.address, node.host, self._config)
        return TlsTransport(below, self._context.current(), peer)

    def frame_reader(self) -> FrameReader:
        """Create the frame reader of a new connection; its lower limit is raised after login."""
        if self._config.uses_sasl:
            return FrameReader(bytes_max=RESPONSE_BYTES_MAX_UNAUTHENTICATED)
        return FrameReader()

    def handshake(
        self, node: Node, address: SocketAddress | None, versions: ApiVersionsStep | None = None
    ) -> Handshake:
        """Create the handshake of a new connection, or of another login.

        Args:
            node: The node to connect to.
            address: The address that the connection uses.
            versions: The ApiVersions step of an established connection; None for a new one.

        Returns:
            A handshake at its first step.

        Raises:
            AuthenticationFailed: A password or a token would be sent unencrypted.
        """
        is_again = versions is not None
        versions = versions or ApiVersionsStep()
        steps = () if self.logins is None else self.logins.steps(node, address, versions)
        return Handshake(versions, steps, is_again=is_again)

    def can_log_in_again(self, resume: Callable[[], None]) -> bool:
        """Whether another login on a connection can start immediately.

        Args:
            resume: Called later, if this returns False, when it may have become possible.

        Returns:
            False while a token is being fetched.
        """
        return self.logins is None or self.logins.can_log_in_again(resume)

    def was_let_in(self) -> None:
        """Record that a broker accepted the login."""
        if self.logins is not None and self.logins.tokens is not None:
            self.logins.tokens.was_let_in()

    def waiting_for(self) -> str:
        """Describe what a login waits for, as the end of a sentence; empty if unknown."""
        tokens = None if self.logins is None else self.logins.tokens
        if tokens is not None and tokens.is_fetching:
            return "; the token provider has not returned"
        return "; what makes its next message (sasl_plain_password, Kerberos) has not returned"

    def close_after_fork(self) -> None:
        """Discard tokens and derived passwords, in a forked child."""
        if self.logins is not None:
            self.logins.close()
