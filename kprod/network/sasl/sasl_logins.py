"""Creates the logins of one client, with their shared state.

Thread-safety: the client's thread.
"""

import ipaddress
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from kprod.config import SecurityConfig
from kprod.config.security_rules import IN_THE_CLEAR
from kprod.model import Node
from kprod.network.address_cursor import SocketAddress
from kprod.network.handshake import ApiVersionsStep, Step
from kprod.network.sasl.bearer_login import OAuthBearerLogin
from kprod.network.sasl.login import Login
from kprod.network.sasl.login_support import LoginSupport
from kprod.network.sasl.plain import PlainLogin
from kprod.network.sasl.sasl_steps import Identity, SaslAuthenticateStep, SaslHandshakeStep
from kprod.network.sasl.scram import SCRAM_HASHES, SaltedPasswords, ScramLogin
from kprod.network.sasl.threaded_login import ThreadedLogin
from kprod.network.sasl.token_source import token_source
from kprod.network.sasl.tokens import TokenStore
from kprod.secret import Secret

_NONCE_BYTES = 18  # 144 bits


class SaslLogins:
    """Creates the login of each connection.

    Attributes:
        tokens: The OAUTHBEARER token; None for another mechanism.
    """

    __slots__ = ("_config", "_gss", "_mechanism", "_passwords", "_support", "tokens")

    def __init__(self, config: SecurityConfig, support: LoginSupport) -> None:
        """Choose the mechanism and create the state that logins share.

        Args:
            config: Settings with SASL.
            support: Parts of the client.
        """
        assert config.sasl_mechanism is not None  # noqa: S101 - the settings were checked
        self._config = config
        self._support = support
        self._mechanism = config.sasl_mechanism
        self.tokens: TokenStore | None = None
        self._passwords: SaltedPasswords | None = None
        password = config.sasl_plain_password
        if self._mechanism == "OAUTHBEARER":
            source = token_source(config, support.clock)
            self.tokens = TokenStore(source, config.sasl_oauthbearer_config or "", support)
        elif self._mechanism in SCRAM_HASHES and password is not None:
            self._passwords = SaltedPasswords(password, SCRAM_HASHES[self._mechanism])

    @property
    def principal(self) -> str:
        """User and mechanism, for texts."""
        return self._config.principal

    def steps(
        self, node: Node, address: SocketAddress | None, versions: ApiVersionsStep
    ) -> Sequence[Step]:
        """Create the handshake steps of one login.

        Args:
            node: The node to connect to.
            address: The address that the connection uses.
            versions: The connection's ApiVersions step.

        Returns:
            SaslHandshake and SaslAuthenticate.

        Raises:
            AuthenticationFailed: A password or a token would be sent unencrypted.
        """
        config = self._config
        user = config.sasl_plain_username or config.sasl_kerberos_principal or ""
        identity = Identity(node.address, user, self._mechanism)
        is_clear = not (config.uses_tls or config.sasl_allow_cleartext)
        if is_clear and self._mechanism in IN_THE_CLEAR and not _is_loopback(address):
            raise identity.failed(
                f"{IN_THE_CLEAR[self._mechanism]} would be sent to {address} in the clear, by"
                f" {self._mechanism} without TLS; set security_protocol=SASL_SSL, or"
                " sasl_allow_cleartext=True if the network is trusted"
            )
        login = self._login(node)
        return (
            SaslHandshakeStep(identity, versions),
            SaslAuthenticateStep(identity, versions, login),
        )

    def can_log_in_again(self, resume: Callable[[], None]) -> bool:
        """Whether another login on a connection can start immediately.

        Args:
            resume: Called later, if this returns False, when it may have become possible.

        Returns:
            False while a token is being fetched.
        """
        return self.tokens is None or self.tokens.is_fresh(resume)

    def close(self) -> None:
        """Discard tokens and derived passwords."""
        if self.tokens is not None:
            self.tokens.close()
        if self._passwords is not None:
            self._passwords.forget()

    def _login(self, node: Node) -> Login:
        config, jobs = self._config, self._support.jobs
        if self.tokens is not None:
            return OAuthBearerLogin(self.tokens, self._now_s)
        if self._mechanism == "GSSAPI":
            from kprod.network.sasl.gss import GssLogin  # noqa: PLC0415 - needs an extra

            return ThreadedLogin(GssLogin(config, node.host), jobs, _always)
        user, password = config.sasl_plain_username, config.sasl_plain_password
        assert user is not None and password is not None  # noqa: S101, PT018 - they were checked
        may_block = _never if isinstance(password, Secret) else _always
        if self._passwords is None:
            return ThreadedLogin(PlainLogin(user, password), jobs, may_block)
        scram = ScramLogin(
            user,
            self._mechanism,
            self._passwords,
            nonce=secrets.token_urlsafe(_NONCE_BYTES),
            is_token=config.sasl_scram_tokenauth,
        )
        return ThreadedLogin(scram, jobs, partial(_either, may_block, scram.may_block))

    def _now_s(self) -> float:
        return self._support.clock.timestamp_ms() / 1_000


def _is_loopback(address: SocketAddress | None) -> bool:
    return address is not None and ipaddress.ip_address(address.host.split("%")[0]).is_loopback


def _always(challenge: bytes | None) -> bool:  # noqa: ARG001 - as `ThreadedLogin` asks
    return True


def _never(challenge: bytes | None) -> bool:  # noqa: ARG001 - as `ThreadedLogin` asks
    return False


def _either(
    first: Callable[[bytes | None], bool],
    second: Callable[[bytes | None], bool],
    challenge: bytes | None,
) -> bool:
    return first(challenge) or second(challenge)
