"""What the connections of one client share of its security.

Thread-safety: one thread, the client's; made where the client is made.
"""

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kprod.config import Secret, SecurityConfig
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.framing import RESPONSE_BYTES_MAX_UNAUTHENTICATED, FrameReader
from kprod.network.handshake import ApiVersionsStep, Handshake, Step
from kprod.network.transport import Transport

if TYPE_CHECKING:
    from kprod.network.sasl.login import Login
    from kprod.network.sasl.sasl_steps import Identity
    from kprod.network.sasl.scram import SaltedPasswords
    from kprod.network.tls_transport import TlsTransport

_NONCE_BYTES = 18  # 144 bits


class Security:
    """Encrypts connections and makes their handshakes."""

    __slots__ = ("_config", "_context", "_passwords")

    def __init__(self, config: SecurityConfig | None = None) -> None:
        """Load what certificates there are.

        Args:
            config: None for no security at all.

        Raises:
            ConfigError: A file or text of certificates cannot be used.
        """
        self._config = config or SecurityConfig()
        self._context = None
        self._passwords: SaltedPasswords | None = None
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

    def frame_reader(self) -> FrameReader:
        """Make the reader of a new connection; its bound is lifted when the broker lets us in."""
        if self._config.uses_sasl:
            return FrameReader(bytes_max=RESPONSE_BYTES_MAX_UNAUTHENTICATED)
        return FrameReader()

    def handshake(self, node: Node, address: SocketAddress | None) -> Handshake:
        """Make the steps of a new connection.

        Args:
            node: Where to.
            address: The one that took the connection.

        Returns:
            Begun with nothing.

        Raises:
            AuthenticationFailed: A password would be sent in the clear.
        """
        versions = ApiVersionsStep()
        return Handshake(versions, self._login_steps(node, address, versions))

    def _login_steps(
        self, node: Node, address: SocketAddress | None, versions: ApiVersionsStep
    ) -> Sequence[Step]:
        config = self._config
        user, password, mechanism = (
            config.sasl_plain_username,
            config.sasl_plain_password,
            config.sasl_mechanism,
        )
        if user is None or password is None or mechanism is None:
            return ()
        from kprod.network.sasl.sasl_steps import (  # noqa: PLC0415 - few clients log in
            Identity,
            SaslAuthenticateStep,
            SaslHandshakeStep,
        )

        identity = Identity(node.address, user, mechanism)
        if mechanism == "PLAIN" and not (config.uses_tls or config.sasl_allow_cleartext):
            _refuse_cleartext(identity, address)
        login = self._login(user, password, mechanism)
        return (
            SaslHandshakeStep(identity, versions),
            SaslAuthenticateStep(identity, versions, login),
        )

    def _login(self, user: str, password: Secret, mechanism: str) -> "Login":
        from kprod.network.sasl.login import PlainLogin  # noqa: PLC0415 - few clients log in

        if mechanism == "PLAIN":
            return PlainLogin(user, password)
        import secrets  # noqa: PLC0415 - loads OpenSSL

        from kprod.network.sasl import scram  # noqa: PLC0415

        if self._passwords is None:
            self._passwords = scram.SaltedPasswords(password, scram.SCRAM_HASHES[mechanism])
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return scram.ScramLogin(user, mechanism, self._passwords, nonce=nonce)


def _refuse_cleartext(identity: "Identity", address: SocketAddress | None) -> None:
    if address is not None and ipaddress.ip_address(address.host.split("%")[0]).is_loopback:
        return
    raise identity.failed(
        f"the password would be sent to {address} in the clear, by PLAIN without TLS; set"
        " security_protocol=SASL_SSL, or sasl_allow_cleartext=True if the network is trusted"
    )
