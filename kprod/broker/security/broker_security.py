"""Security settings of an embedded cluster: an immutable value, validated on creation.

Thread-safety: immutable.
Source: Kafka broker configuration reference (4.3): listener.security.protocol.map, ssl.client.auth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kprod.broker.security.acls import Acl
from kprod.errors import ConfigError

BROKER_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CLIENT_CERTIFICATES = ("none", "optional", "required")
VALIDITIES = ("now", "expired", "not yet")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_BY_PASSWORD = MECHANISMS[:3]
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """Settings for connections to an embedded cluster; the same for all brokers.

    Attributes:
        protocol: `PLAINTEXT`, `SSL` for TLS, `SASL_PLAINTEXT` or `SASL_SSL` for logins without or
            with TLS.
        mechanisms: Allowed SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
        users: Passwords by user name; never shown.
        session_lifetime_ms: Lifetime of a login, like Kafka's connections.max.reauth.ms; 0 for that
            of the connection.
        failure_delay_ms: Delay of the response to a failed login; Kafka takes some 300 ms.
        acls: The access rules; None allows everything. A client without a login is `ANONYMOUS`; one
            with a certificate has its common name.
        super_users: Users that may do everything, regardless of `acls`.
        token_keys: A JWKS with the keys of an external issuer of OAUTHBEARER tokens; None for the
            cluster's own key, with which `EmbeddedCluster.token` signs.
        token_audience: The required `aud` claim of a token; None for any.
        token_issuer: The required `iss` claim of a token; None for any.
        allow_unsecured_tokens: Whether to accept tokens without a signature (`"alg": "none"`),
            which anybody can create.
        client_certificates: Whether clients need a certificate of the cluster's authority: `none`,
            `optional` or `required`, like Kafka's ssl.client.auth.
        certificate_hosts: Names and addresses in the brokers' certificate; wrong ones test a
            client's host name check.
        certificate_valid: `now`, or `expired` or `not yet`, to test a client's validity check.
    """

    protocol: str = "PLAINTEXT"
    mechanisms: tuple[str, ...] = _BY_PASSWORD
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    session_lifetime_ms: int = 0
    failure_delay_ms: int = 0
    acls: Sequence[Acl] | None = None
    super_users: Sequence[str] = ()
    token_keys: Mapping[str, Any] | None = field(default=None, repr=False)
    token_audience: str | None = None
    token_issuer: str | None = None
    allow_unsecured_tokens: bool = False
    client_certificates: str = "none"
    certificate_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    certificate_valid: str = "now"

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            ConfigError: A value is not one of the possible ones.
        """
        _check("protocol", self.protocol, BROKER_PROTOCOLS)
        _check("client_certificates", self.client_certificates, CLIENT_CERTIFICATES)
        _check("certificate_valid", self.certificate_valid, VALIDITIES)
        if isinstance(self.certificate_hosts, str) or not self.certificate_hosts:
            raise ConfigError(
                f"certificate_hosts={self.certificate_hosts!r} is not a tuple of at least one name"
            )
        for name in self.mechanisms:
            _check("mechanisms", name, MECHANISMS)
        for name in ("session_lifetime_ms", "failure_delay_ms"):
            if not 0 <= getattr(self, name) <= _INT32_MAX:
                raise ConfigError(
                    f"{name}={getattr(self, name)!r} is not between 0 and {_INT32_MAX}"
                )
        can_log_in = "OAUTHBEARER" in self.mechanisms or (self.users and self.mechanisms)
        if self.uses_sasl and not can_log_in:
            raise ConfigError(
                f"protocol={self.protocol!r} needs users and mechanisms: nobody could log in;"
                " set users={'alice': 'a password'}, or mechanisms=('OAUTHBEARER',)"
            )
        if isinstance(self.super_users, str):
            raise ConfigError(f"super_users={self.super_users!r} is not a tuple of names")
        if self.users and not self.uses_sasl:
            raise ConfigError(
                f"users need a login: protocol={self.protocol!r} has none; set"
                " protocol='SASL_PLAINTEXT' or 'SASL_SSL'"
            )
        if self.client_certificates != "none" and not self.uses_tls:
            raise ConfigError(
                f"client_certificates={self.client_certificates!r} needs TLS:"
                f" protocol={self.protocol!r} has none; set protocol='SSL'"
            )

    @property
    def uses_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(allowed)}")
