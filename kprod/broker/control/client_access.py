"""The access data of a cluster: addresses, client settings, certificates and tokens.

Thread-safety: as `EmbeddedCluster`.
"""

from typing import TYPE_CHECKING, Any

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.security.client_settings import client_settings
from kprod.errors import ConfigError

if TYPE_CHECKING:
    from kprod.broker.security.authority import ClientCertificate


class ClientAccess:
    """The methods of `EmbeddedCluster` that help clients connect."""

    __slots__ = ()

    _kprod: ClusterRunner

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, as `host:port`, separated by commas."""
        return ",".join(broker.node.address for broker in self._kprod.engine.brokers.values())

    @property
    def ca_pem(self) -> str:
        """The CA certificate that clients of a cluster with TLS trust, as PEM text."""
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().pem

    def client_certificate(self, user: str) -> "ClientCertificate":
        """Issue a certificate for a client.

        Args:
            user: The certificate's common name.

        Returns:
            The certificate and its private key, as PEM texts.
        """
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().client_certificate(user)

    def token(self, user: str, *, expires_in_s: float = 3_600, **claims: object) -> str:
        """Sign a token for a login with OAUTHBEARER.

        Args:
            user: The token's subject.
            expires_in_s: Lifetime in seconds; negative for an expired token.
            claims: Claims that override the required ones; None removes one.

        Returns:
            The token, as a JWT.

        Raises:
            ConfigError: The cluster does not use OAUTHBEARER.
        """
        tokens = self._kprod.engine.identities.bearer_tokens
        if tokens is None:
            raise ConfigError(
                "the cluster takes no tokens; make it with"
                " BrokerSecurity(protocol='SASL_SSL', mechanisms=('OAUTHBEARER',))"
            )
        return tokens.sign(user, expires_in_s, claims)

    def client_settings(
        self, *, user: str | None = None, mechanism: str | None = None, names: str = "kprod"
    ) -> dict[str, Any]:
        """Return the settings with which a client connects to this cluster.

        Args:
            user: The user to log in as, if logins are required; None for the first user. With
                OAUTHBEARER any name is possible.
            mechanism: The SASL mechanism; None for the first one.
            names: The client whose setting names to use: `kprod`, `confluent`, `kafka`
                (kafka-python) or `aiokafka`.

        Returns:
            Settings by name, including the bootstrap servers.

        Raises:
            ConfigError: The client, user or mechanism is unknown.
        """
        return client_settings(
            self._kprod.engine.security,
            self.bootstrap_servers,
            names=names,
            user=user,
            mechanism=mechanism,
            sign=self.token,
        )
