"""An Apache Kafka that lets in by Kerberos: one node beside a KDC of the tests.

Source: Kafka 4.3.1 broker settings; KIP-12, KIP-368; Java's Krb5LoginModule.
"""

from collections.abc import Generator

import pytest
import trustme

from tests.plugins import early_logins
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_secured import TOPIC, pem_for_java
from tests.plugins.kafka_settings import QUICK_JAVA, PortLease
from tests.plugins.kafka_tools import KafkaTools
from tests.plugins.kerberos import REALM, SERVICE, Realm

LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "RENEWED")


class KerberosKafka(KafkaNodes):
    """One node.

    Attributes:
        ca_pem: The authority of its certificate.
    """

    def __init__(self, artifacts: Artifacts, realm: Realm) -> None:
        """Choose ports, and write a certificate."""
        super().__init__(artifacts)
        settings = realm.environment["KRB5_CONFIG"]
        flags = (*QUICK_JAVA, f"-Djava.security.krb5.conf={settings}")
        self.tools = KafkaTools(artifacts, flags)
        self._listener_lease = PortLease(len(LISTENERS))
        self._listener_ports = dict(zip(LISTENERS, self._listener_lease.ports, strict=True))
        authority = trustme.CA()
        self.ca_pem = authority.cert_pem.bytes().decode()
        server = self.directory / "server.pem"
        server.write_bytes(pem_for_java(authority.issue_cert("localhost")))
        self._settings.update(self._listener_settings(str(server), str(realm.keytab_path(SERVICE))))

    def secured_address(self, listener: str) -> str:
        """Give a listener's address.

        Args:
            listener: One of `LISTENERS`.

        Returns:
            `localhost:port`.
        """
        return f"localhost:{self._listener_ports[listener]}"

    def close(self) -> None:
        """End the node, and give the ports up."""
        super().close()
        self._listener_lease.close()

    def _listener_settings(self, certificate: str, keytab: str) -> dict[str, str]:
        (port,) = self._ports.values()
        addresses = [f"PLAINTEXT://127.0.0.1:{port}"]
        addresses += [f"{it}://{self.secured_address(it)}" for it in LISTENERS]
        addresses.append(f"CONTROLLER://127.0.0.1:{self._controller_port}")
        kinds = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
        protocols = [f"{it}:{it}" for it in kinds]
        protocols += ["CONTROLLER:PLAINTEXT", "RENEWED:SASL_PLAINTEXT"]
        settings = {
            "listeners": ",".join(addresses),
            "listener.security.protocol.map": ",".join(protocols),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificate,
            "sasl.kerberos.service.name": SERVICE.split("/")[0],
        }
        for listener in map(str.lower, LISTENERS):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = "GSSAPI"
            settings[f"{prefix}.gssapi.sasl.jaas.config"] = (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
                f' storeKey=true keyTab="{keytab}" principal="{SERVICE}@{REALM}";'
            )
        settings["listener.name.renewed.gssapi.connections.max.reauth.ms"] = str(
            early_logins.SESSION_MS
        )
        return settings


@pytest.fixture(scope="session")
def kafka_kerberos(kafka_artifacts: Artifacts, kerberos_realm: Realm) -> Generator[KerberosKafka]:
    """One node that lets in by Kerberos, which all tests of a session share.

    Yields:
        It, ready.
    """
    with KerberosKafka(kafka_artifacts, kerberos_realm) as nodes:
        nodes.create_topic(TOPIC)
        yield nodes
