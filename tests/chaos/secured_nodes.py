"""An Apache Kafka of several brokers whose clients use TLS and log in, again and again.

Source: Kafka 4.3.1 broker settings; KIP-368 for sessions that end.
"""

from collections.abc import Mapping
from typing import Any

import trustme

from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_secured import pem_for_java
from tests.plugins.kafka_settings import PortLease

USER, PASSWORD = "alice", "alice-secret"
SESSION_MS = 10_000
_PREFIX = "listener.name.sasl_ssl"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecuredNodes(KafkaNodes):
    """Brokers with a listener for clients beside that for tools and for each other."""

    def __init__(self, artifacts: Artifacts, *, brokers: int) -> None:
        """Choose ports, and write certificates."""
        super().__init__(artifacts, brokers=brokers)
        self._client_lease = PortLease(brokers)
        self._client_ports = dict(zip(self.broker_ids, self._client_lease.ports, strict=True))
        ca = trustme.CA()
        server, self._ca_file = self.directory / "server.pem", self.directory / "ca.pem"
        server.write_bytes(pem_for_java(ca.issue_cert("localhost")))
        self._ca_file.write_bytes(ca.cert_pem.bytes())
        self._settings.update(
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(server),
                f"{_PREFIX}.sasl.enabled.mechanisms": "PLAIN",
                f"{_PREFIX}.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{PASSWORD}";',
                f"{_PREFIX}.plain.connections.max.reauth.ms": str(SESSION_MS),
            }
        )

    def client_settings(self) -> Mapping[str, Any]:
        """Give the settings of a client."""
        addresses = (f"localhost:{port}" for port in self._client_ports.values())
        return {
            "bootstrap.servers": ",".join(addresses),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def close(self) -> None:
        """End the nodes, and give the ports up."""
        super().close()
        self._client_lease.close()

    def _settings_of(self, node_id: int) -> Mapping[str, str]:
        """Add the listener for clients to a broker's."""
        settings = dict(super()._settings_of(node_id))
        port = self._client_ports.get(node_id)
        if port is not None:
            settings["listeners"] += f",SASL_SSL://localhost:{port}"
        settings["listener.security.protocol.map"] += ",SASL_SSL:SASL_SSL"
        return settings
