"""What the connections of one client share of its security.

Thread-safety: one thread, the client's; made where the client is made.
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
    """Encrypts connections and makes their handshakes.

    Attributes:
        logins: Of a client that logs in; None before `attach`, and for one that does not.
    """

    __slots__ = ("_config", "_context", "logins")

    def __init__(self, config: SecurityConfig | None = None) -> None:
        """Load what certificates there are.

        Args:
            config: None for no security at all.

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
        """Give logins what they need of the client.

        Args:
            support: Of the client.
        """
        if self._config.uses_sasl:
            from kprod.network.sasl.sasl_logins import SaslLogins  # noqa: PLC0415 - few log in

            self.logins = SaslLogins(self._config, support)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._context is not None

    @property
    def principal(self) -> str:
        """User and mechanism, for texts; empty without a login."""
        return "" if self.logins is None else self.logins.principal

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

    def frame_reader(self) -> FrameReader:
        """Make the reader of a new connection; its bound is lifted when the broker lets us in."""
        if self._config.uses_sasl:
            return FrameReader(bytes_max=RESPONSE_BYTES_MAX_UNAUTHENTICATED)
        return FrameReader()

    def handshake(
        self, node: Node, address: SocketAddress | None, versions: ApiVersionsStep | None = None
    ) -> Handshake:
        """Make the steps of a new connection, or of another login on one.

        Args:
            node: Where to.
            address: The one that took the connection.
            versions: The first step of a connection that stands; None for a new one.

        Returns:
            Its steps, none of them taken.

        Raises:
            AuthenticationFailed: A password or a token would be sent in the clear.
        """
        is_again = versions is not None
        versions = versions or ApiVersionsStep()
        steps = () if self.logins is None else self.logins.steps(node, address, versions)
        return Handshake(versions, steps, is_again=is_again)

    def can_log_in_again(self, resume: Callable[[], None]) -> bool:
        """Whether another login on a connection can begin at once.

        Args:
            resume: Called later, if this returns False, when it may be worth asking again.

        Returns:
            False while a token is being fetched.
        """
        return self.logins is None or self.logins.can_log_in_again(resume)

    def was_let_in(self) -> None:
        """Take note that a broker has let the client in."""
        if self.logins is not None and self.logins.tokens is not None:
            self.logins.tokens.was_let_in()

    def waiting_for(self) -> str:
        """Say what a login waits for, as the end of a sentence; empty if that is not known."""
        tokens = None if self.logins is None else self.logins.tokens
        if tokens is not None and tokens.is_fetching:
            return "; the token provider has not returned"
        return "; what makes its next message (sasl_plain_password, Kerberos) has not returned"

    def close_after_fork(self) -> None:
        """Forget tokens and derived passwords, in a forked child."""
        if self.logins is not None:
            self.logins.close()
