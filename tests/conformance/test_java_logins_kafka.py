"""Java's console producer at the embedded broker: TLS, a client certificate, and each login."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kprod.broker import BrokerSecurity, EmbeddedCluster
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_settings import QUICK_JAVA, properties
from tests.plugins.kafka_tools import KafkaTools

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
MODULE = "org.apache.kafka.common.security"
HANDLER = f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler"
TIMEOUT_S = 100
USERS = {"alice": "alice-secret", "a=b,c": "pa①ss w=,rd"}


def produce(artifacts: Artifacts, directory: Path, cluster: EmbeddedCluster, **more: str) -> None:
    """Write one record by the console producer."""
    authority = directory / "ca.pem"
    authority.write_text(cluster.ca_pem, "utf-8")
    settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    file = directory / "client.properties"
    written = properties(settings)
    file.write_text("".join(it if it.isascii() else f"\\u{ord(it):04x}" for it in written), "ascii")
    token = (directory / "token").as_uri()
    flags = (*QUICK_JAVA, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token}")
    command = [
        *KafkaTools(artifacts, flags).java(log=None),
        *(PRODUCER, "--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders"),
        *("--command-config", str(file), "--sync"),
    ]
    done = subprocess.run(
        command, input="one\n", capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert [it.value for it in cluster.records("orders")[0]] == [b"one"], done.stderr[-3_000:]


def served(**security: Any) -> EmbeddedCluster:
    """One broker."""
    return EmbeddedCluster(1, {"orders": 1}, security=BrokerSecurity(**security))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password(kafka_artifacts: Artifacts, tmp_path: Path, mechanism: str) -> None:
    """Of any characters."""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    user, password = list(USERS.items())[mechanism != "PLAIN"]
    with served(protocol="SASL_SSL", users=USERS, mechanisms=(mechanism,)) as cluster:
        produce(
            kafka_artifacts,
            tmp_path,
            cluster,
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_jaas_config=f"{MODULE}.{kind}LoginModule required"
            f' username="{user}" password="{password}";',
        )


@pytest.mark.slow
def test_a_token(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """From a file, signed by the broker's key."""
    users = {"alice": "alice-secret"}
    with served(protocol="SASL_SSL", users=users, mechanisms=("OAUTHBEARER",)) as cluster:
        (tmp_path / "token").write_text(cluster.token("alice"), "utf-8")
        produce(
            kafka_artifacts,
            tmp_path,
            cluster,
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=(tmp_path / "token").as_uri(),
            sasl_login_callback_handler_class=HANDLER,
            sasl_jaas_config=f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;",
        )


@pytest.mark.slow
def test_a_client_certificate(kafka_artifacts: Artifacts, tmp_path: Path) -> None:
    """In PEM, which Java reads in one form only."""
    with served(protocol="SSL", client_certificates="required") as cluster:
        certificate, key = cluster.client_certificate("alice")
        store = tmp_path / "alice.pem"
        store.write_text(key + certificate, "utf-8")
        produce(
            kafka_artifacts,
            tmp_path,
            cluster,
            security_protocol="SSL",
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(store),
        )
