"""How clients get in: addresses, settings, certificates and tokens for those of a cluster.

Thread-safety: as `EmbeddedCluster`.
"""

from typing import TYPE_CHECKING, Any

from kprod.broker.cluster_runner import ClusterRunner
from kprod.broker.security.client_settings import client_settings
from kprod.errors import ConfigError

if TYPE_CHECKING:
    from kprod.broker.security.authority import ClientCertificate


class ClientAccess:
    """Methods of an `EmbeddedCluster` for the clients of its user."""

    __slots__ = ()

    _kprod: ClusterRunner

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, host and port of each, with commas between."""
        return ",".join(broker.node.address for broker in self._kprod.engine.brokers.values())

    @property
    def ca_pem(self) -> str:
        """The certificate that clients of a cluster with TLS trust, as PEM text."""
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().pem

    def client_certificate(self, user: str) -> "ClientCertificate":
        """Issue a certificate for a client.

        Args:
            user: Its common name.

        Returns:
            The certificate and its key, as PEM texts.
        """
        from kprod.broker.security.authority import authority  # noqa: PLC0415 - needs an extra

        return authority().client_certificate(user)

    def token(self, user: str, *, expires_in_s: float = 3_600, **claims: object) -> str:
        """Sign a token with which a client logs in by OAUTHBEARER.

        Args:
            user: Its subject.
            expires_in_s: From now on; negative for one that is over.
            claims: Over those that the cluster wants; None leaves one out.

        Returns:
            The token, a JWT.

        Raises:
            ConfigError: The cluster has no OAUTHBEARER.
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
            user: The user that logs in, where a login is wanted; None for the first one. By
                OAUTHBEARER any name will do.
            mechanism: How; None for the first that there is.
            names: Of which client: `kprod`, `confluent`, `kafka` (kafka-python) or `aiokafka`.

        Returns:
            Settings by name, bootstrap servers included.

        Raises:
            ConfigError: No such client, user or mechanism is known.
        """
        return client_settings(
            self._kprod.engine.security,
            self.bootstrap_servers,
            names=names,
            user=user,
            mechanism=mechanism,
            sign=self.token,
        )
