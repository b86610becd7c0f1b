"""What an embedded cluster demands of its clients: one frozen value, checked when it is made.

Thread-safety: immutable.
Source: Kafka broker configuration reference (4.3): listener.security.protocol.map, ssl.client.auth.
"""

from dataclasses import dataclass

from kprod.errors import ConfigError

BROKER_PROTOCOLS = ("PLAINTEXT", "SSL")
CLIENT_CERTIFICATES = ("none", "optional", "required")
VALIDITIES = ("now", "expired", "not yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """How clients connect to an embedded cluster, all brokers alike.

    Attributes:
        protocol: `PLAINTEXT`, or `SSL` for TLS.
        client_certificates: Whether a client shows a certificate of the cluster's own authority:
            `none`, `optional` or `required`, as of Kafka's ssl.client.auth.
        certificate_hosts: The names and addresses in the brokers' certificate; others than the
            brokers' own, to test a client's check of them.
        certificate_valid: `now`, or `expired` or `not yet`, to test a client's check of it.
    """

    protocol: str = "PLAINTEXT"
    client_certificates: str = "none"
    certificate_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    certificate_valid: str = "now"

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ConfigError: One is none of those that there are.
        """
        _check("protocol", self.protocol, BROKER_PROTOCOLS)
        _check("client_certificates", self.client_certificates, CLIENT_CERTIFICATES)
        _check("certificate_valid", self.certificate_valid, VALIDITIES)
        if isinstance(self.certificate_hosts, str) or not self.certificate_hosts:
            raise ConfigError(
                f"certificate_hosts={self.certificate_hosts!r} is not a tuple of at least one name"
            )
        if self.client_certificates != "none" and not self.uses_tls:
            raise ConfigError(
                f"client_certificates={self.client_certificates!r} needs TLS:"
                f" protocol={self.protocol!r} has none; set protocol='SSL'"
            )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol == "SSL"


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(allowed)}")
