"""An Apache Kafka with TLS and logins: one node, with a listener for each thing that can be wrong.

Source: Kafka 4.3.1 broker settings; KIP-651 for PEM, KIP-768 for the keys of tokens.
"""

import json
from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from joserfc import jwt
from joserfc.jwk import RSAKey

from kprod.clock import SystemClock
from tests.plugins import early_logins
from tests.plugins.kafka_artifacts import Artifacts
from tests.plugins.kafka_nodes import KafkaNodes
from tests.plugins.kafka_settings import QUICK_JAVA, PortLease
from tests.plugins.kafka_tools import KafkaTools

USERS = {"alice": "alice-secret", "a=b,c": "b ob=,secret", "carol": "carol-secret"}
SUPER_USERS = ("ANONYMOUS", "alice", "bob", "a=b,c")
"""The user that may do everything; carol may do what an ACL lets her."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_WRONG = ("WRONGHOST", "EXPIRED", "NOTYET")
_TLS = ("SSL", "MTLS", *_WRONG, "TLS12", "SASL_SSL")
SESSIONS_MS = {"REAUTH": 2_000, "RENEWED": early_logins.SESSION_MS}
"""How long a login lasts at the listeners that limit it."""

_LOGIN = ("SASL_PLAINTEXT", "SASL_SSL", *SESSIONS_MS)
LACKING = "SCRAM-SHA-512"
"""The mechanism that the listener REAUTH does not offer."""

LISTENERS = (*_TLS, "SASL_PLAINTEXT", *SESSIONS_MS)

TOPIC = "secured"
ISSUER, AUDIENCE = "https://idp.test", "kafka"
_MODULE = "org.apache.kafka.common.security"


class SecuredKafka(KafkaNodes):
    """One node.

    Attributes:
        ca: Issued all certificates.
        token_key: Signs tokens that the node accepts.
    """

    def __init__(self, artifacts: Artifacts, *, java_flags: Sequence[str] = QUICK_JAVA) -> None:
        """Choose ports, and write certificates."""
        super().__init__(artifacts)
        self.ca = trustme.CA()
        self.token_key = RSAKey.generate_key(2048, {"kid": "of the tests"})
        keys = self.directory / "jwks.json"
        keys.write_text(json.dumps({"keys": [self.token_key.as_dict(private=False)]}), "utf-8")
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
        self.tools = KafkaTools(artifacts, (*java_flags, allowed))
        self._listener_lease = PortLease(len(LISTENERS))
        self._listener_ports = dict(zip(LISTENERS, self._listener_lease.ports, strict=True))
        self._write_certificates()
        self._settings.update(self._listener_settings())
        for listener in _LOGIN:
            self._settings.update(_login_settings(listener.lower()))
            self._settings.update(_token_settings(listener.lower(), keys.as_uri()))

    def secured_address(self, listener: str) -> str:
        """Give a listener's address.

        Args:
            listener: One of `LISTENERS`.

        Returns:
            `localhost:port`.
        """
        return f"localhost:{self._listener_ports[listener]}"

    def add_scram_users(self) -> None:
        """Make the users, by Kafka's own tool."""
        for user, password in USERS.items():
            for mechanism in MECHANISMS[1:]:
                self.tools.run(
                    "kafka.admin.ConfigCommand",
                    *("--bootstrap-server", self.bootstrap_servers, "--alter"),
                    *("--entity-type", "users", "--entity-name", user),
                    *("--add-config", f"{mechanism}=[password={password}]"),
                )

    def token(self, user: str, *, expires_in_s: int = 3_600, **claims: object) -> str:
        """Sign a token for OAUTHBEARER.

        Args:
            user: Its subject.
            expires_in_s: From now on.
            claims: Over those that the node wants.

        Returns:
            The token.
        """
        now_s = SystemClock().timestamp_ms() // 1_000
        times = {"iat": now_s, "exp": now_s + expires_in_s}
        wanted = {"sub": user, "aud": AUDIENCE, "iss": ISSUER, **times, **claims}
        header = {"alg": "RS256", "kid": "of the tests"}
        return jwt.encode(header, wanted, self.token_key)

    def close(self) -> None:
        """End the node, and give the ports up."""
        super().close()
        self._listener_lease.close()

    def _write_certificates(self) -> None:
        now = datetime.now(UTC)  # noqa: TID251 - OpenSSL and Java ask the system
        day = timedelta(days=1)
        for name, issued in {
            "server": self.ca.issue_cert("localhost", "127.0.0.1", "::1"),
            "wronghost": self.ca.issue_cert("kafka.example.org"),
            "expired": self.ca.issue_cert(
                "localhost", not_before=now - 2 * day, not_after=now - day
            ),
            "notyet": self.ca.issue_cert(
                "localhost", not_before=now + day, not_after=now + 2 * day
            ),
        }.items():
            (self.directory / f"{name}.pem").write_bytes(pem_for_java(issued))
        (self.directory / "ca.pem").write_bytes(self.ca.cert_pem.bytes())

    def _listener_settings(self) -> dict[str, str]:
        (port,) = self._ports.values()
        addresses = [f"PLAINTEXT://127.0.0.1:{port}"]
        addresses += [f"{it}://{self.secured_address(it)}" for it in LISTENERS]
        addresses.append(f"CONTROLLER://127.0.0.1:{self._controller_port}")
        kinds = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "SASL_PLAINTEXT:SASL_PLAINTEXT"]
        kinds += [f"{it}:SASL_PLAINTEXT" for it in SESSIONS_MS]
        kinds += [f"{it}:{'SASL_SSL' if it == 'SASL_SSL' else 'SSL'}" for it in _TLS]
        settings = {
            "listeners": ",".join(addresses),
            "listener.security.protocol.map": ",".join(kinds),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.tls12.ssl.enabled.protocols": "TLSv1.2",
            "listener.name.tls12.ssl.protocol": "TLSv1.2",
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in SUPER_USERS),
            "delegation.token.secret.key": "a-secret-of-the-tests",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        for listener, session_ms in SESSIONS_MS.items():
            for mechanism in (*MECHANISMS, "OAUTHBEARER"):
                prefix = f"listener.name.{listener.lower()}.{mechanism.lower()}"
                settings[f"{prefix}.connections.max.reauth.ms"] = str(session_ms)
        for listener in map(str.lower, _WRONG):
            prefix = f"listener.name.{listener}.ssl.keystore"
            settings[f"{prefix}.type"] = "PEM"
            settings[f"{prefix}.location"] = str(self.directory / f"{listener}.pem")
        return settings


def pem_for_java(issued: trustme.LeafCert) -> bytes:
    """Write a key in PKCS#8, the only form that Java reads, and the chain behind it."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(blob.bytes() for blob in issued.cert_chain_pems)


def _login_settings(listener: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}"
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    scram = f"{_MODULE}.scram.ScramLoginModule required;"
    lacking = LACKING if listener == "reauth" else ""
    offered = (it for it in (*MECHANISMS, "OAUTHBEARER") if it != lacking)
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(offered),
        f"{prefix}.plain.sasl.jaas.config": (
            f"{_MODULE}.plain.PlainLoginModule required {users.replace('a=b,c', 'bob')};"
        ),
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
    }


def _token_settings(listener: str, keys: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}.oauthbearer"
    handler = f"{_MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        f"{prefix}.sasl.jaas.config": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;",
        f"{prefix}.sasl.server.callback.handler.class": handler,
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": keys,
    }


@pytest.fixture(scope="session")
def kafka_secured(kafka_artifacts: Artifacts) -> Generator[SecuredKafka]:
    """One node with TLS and logins, which all tests of a session share.

    Yields:
        It, ready.
    """
    with SecuredKafka(kafka_artifacts) as nodes:
        nodes.add_scram_users()
        nodes.create_topic(TOPIC)
        yield nodes


def client_pem(directory: Path, ca: trustme.CA) -> Path:
    """Write a client's key and certificate.

    Args:
        directory: Target directory.
        ca: Issues it.

    Returns:
        The file.
    """
    path = directory / "alice.pem"
    path.write_bytes(pem_for_java(ca.issue_cert("alice@kprod.test", common_name="alice")))
    return path
