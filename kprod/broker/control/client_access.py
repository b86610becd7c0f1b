"""Provides a cluster's addresses, and settings, certificates and tokens for its clients.

Thread-safety: as `EmbeddedCluster`.
"""

from typing import TYPE_CHECKING, Any

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.security.client_settings import client_settings
from kprod.errors import ConfigError

if TYPE_CHECKING:
    from kprod.broker.security.authority import ClientCertificate


class ClientAccess:
    """Methods of an `EmbeddedCluster` that let clients connect and log in."""

    __slots__ = ()

    _kprod: ClusterRunner

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, host and port of each, separated by commas."""
        return ",".join(broker.node.address for broker in self._kprod.engine.brokers.values())

    @property
    def ca_pem(self) -> str:
        """Certificate of the authority that signed the brokers' certificates, as PEM text."""
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
        """Sign a token for a login by OAUTHBEARER.

        Args:
            user: The token's subject.
            expires_in_s: Lifetime in seconds from now; negative for an expired token.
            claims: Claims that replace those that the cluster requires; None omits one.

        Returns:
            The token, a JWT.

        Raises:
            ConfigError: The cluster does not support OAUTHBEARER.
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
            user: User that logs in, if a login is required; None for the first one. OAUTHBEARER
                accepts any name.
            mechanism: SASL mechanism; None for the first available one.
            names: Client whose setting names are used: `kprod`, `confluent`, `kafka` (kafka-python)
                or `aiokafka`.

        Returns:
            Settings by name, bootstrap servers included.

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
