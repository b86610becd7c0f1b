"""Settings of security: every spelling, what contradicts what, and that secrets stay secret."""

import ssl
from typing import Any

import pytest

from kprod.config import ProducerConfig, Secret, SecurityConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.settings_table import rows
from kprod.errors import ConfigError

SAMPLES: dict[str, Any] = {
    "security_protocol": "SSL",
    "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    "ssl_cafile": "/ca.pem",
    "ssl_cadata": "-----BEGIN …",
    "ssl_certfile": "/cert.pem",
    "ssl_keyfile": "/key.pem",
    "ssl_certdata": "-----BEGIN …",
    "ssl_keydata": "-----BEGIN …",
    "ssl_password": "canary",
    "ssl_truststore_password": "canary",
    "ssl_check_hostname": False,
    "ssl_enabled_protocols": "TLSv1.3",
    "ssl_ciphers": "ECDHE+AESGCM",
    "ssl_crlfile": "/crl.pem",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "canary",
    "sasl_jaas_config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="alice" password="canary";',
    "sasl_allow_cleartext": True,
    "sasl_scram_tokenauth": True,
    "sasl_oauth_token_provider": str,
    "sasl_oauthbearer_token_file": "/token",
    "sasl_oauthbearer_token_endpoint_url": "https://idp.test/token",
    "sasl_oauthbearer_client_id": "kprod",
    "sasl_oauthbearer_client_secret": "canary",
    "sasl_oauthbearer_scope": "kafka",
    "sasl_oauthbearer_extensions": "logicalCluster=lkc-1",
    "sasl_oauthbearer_config": "principal=alice",
    "https_cafile": "/ca.pem",
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_principal": "alice",
    "sasl_kerberos_keytab": "/alice.keytab",
    "sasl_kerberos_domain_name": "kafka.test",
}
NEEDS = {
    "ssl_keyfile": "ssl_certfile",
    "ssl_certdata": "ssl_keydata",
    "ssl_keydata": "ssl_certdata",
    "ssl_password": "ssl_certfile",
    "ssl_truststore_password": "ssl_cafile",
}
LOGIN = {
    name: SAMPLES[name] for name in ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
}
SPELLINGS = [
    (name, spelling)
    for name, setting, _ in rows(SecurityConfig)
    for spelling in setting.spellings(name)
]


def parsed(settings: dict[str, Any]) -> SecurityConfig:
    """As a producer reads them."""
    return ProducerConfig.parse({"bootstrap_servers": "a:1", **settings}).security


def rejection(settings: dict[str, Any]) -> str:
    """Why they are rejected."""
    with pytest.raises(ConfigError) as caught:
        parsed(settings)
    return str(caught.value)


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
def test_every_spelling_is_taken(name: str, spelling: str) -> None:
    """Kprod's, Java's and librdkafka's, with dots and with underscores."""
    settings = {"security.protocol": "ssl", spelling: SAMPLES[name]}
    if name.startswith(("sasl", "https")):
        given = {other for other, it in SPELLINGS if it == spelling}
        login = _login_with(name)
        settings = {it: value for it, value in login.items() if it not in given} | settings
        settings["security.protocol"] = "sasl_ssl"
        if name == "sasl_jaas_config":
            del settings["sasl_plain_username"], settings["sasl_plain_password"]
    if name in NEEDS:
        settings[NEEDS[name]] = SAMPLES[NEEDS[name]]
    value = getattr(parsed(settings), name)
    shown = value.reveal() if isinstance(value, Secret) else value
    converted = {
        "ssl_enabled_protocols": ("TLSv1.3",),
        "sasl_oauthbearer_extensions": {"logicalCluster": "lkc-1"},
    }
    assert shown == converted.get(name, SAMPLES[name])


def _login_with(name: str) -> dict[str, Any]:
    """Settings of a login that has one more setting."""
    if name.startswith("sasl_kerberos"):
        return {"sasl_mechanism": "GSSAPI"}
    if name in {"sasl_oauth_token_provider", "sasl_oauthbearer_token_file"}:
        return {"sasl_mechanism": "OAUTHBEARER"}
    if name.startswith(("sasl_oauthbearer", "https")):
        names = [f"sasl_oauthbearer_{it}" for it in ("client_id", "client_secret")]
        names.append("sasl_oauthbearer_token_endpoint_url")
        return {"sasl_mechanism": "OAUTHBEARER"} | {it: SAMPLES[it] for it in names}
    return LOGIN | ({"sasl_mechanism": "SCRAM-SHA-256"} if name == "sasl_scram_tokenauth" else {})


def test_nothing_is_the_default() -> None:
    """In the clear, as in Kafka; and with TLS everything is checked."""
    assert parsed({}).security_protocol == "PLAINTEXT"
    assert not parsed({}).uses_tls
    assert parsed({"security_protocol": "SSL"}).ssl_check_hostname


@pytest.mark.parametrize(
    ("written", "meant"),
    [("https", True), ("", False), ("none", False), ("True", True), (False, False)],
)
def test_the_name_check_in_each_words(written: object, meant: object) -> None:
    """Java's empty text, librdkafka's none."""
    settings = {"security_protocol": "SSL", "ssl.endpoint.identification.algorithm": written}
    assert parsed(settings).ssl_check_hostname is meant


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ssl_cafile": "/a"}, "ssl_cafile is of no use with security_protocol=PLAINTEXT"),
        (
            {"security_protocol": "TLS"},
            "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'",
        ),
        (
            {"security_protocol": "SSL", "ssl_context": SAMPLES["ssl_context"], "ssl_cafile": "a"},
            "ssl_context and ssl_cafile contradict each other",
        ),
        ({"security_protocol": "SSL", "ssl_context": "x"}, "must be an ssl.SSLContext or None"),
        ({"security_protocol": "SSL", "ssl_cafile": "a", "ssl_cadata": "b"}, "say the same"),
        ({"security_protocol": "SSL", "ssl_keyfile": "a"}, "ssl_keyfile needs ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_certdata": "a"}, "ssl_certdata needs ssl_keydata"),
        ({"security_protocol": "SSL", "ssl_password": "a"}, "ssl_password needs ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_cafile": ""}, "ssl_cafile is empty"),
        ({"security_protocol": "SSL", "ssl_cafile": "a\0b"}, "character NUL"),
        (
            {"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1.1"},
            "not 'TLSv1.1': older versions are broken",
        ),
        ({"security_protocol": "SSL", "ssl_cafle": "a"}, "did you mean ssl_cafile?"),
        ({"ssl.truststore.type": "JKS"}, "kprod sees what a file is by itself"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism is of no use with security_protocol=PLAIN"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "sasl_plain_username is missing",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_mechanism": "GSSAPI"},
            "sasl_plain_username is of no use with sasl_mechanism=GSSAPI",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_mechanism": "CRAM-MD5"},
            "must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, not",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl_oauth_token_provider is missing",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://idp.test/token",
            },
            "sasl_oauthbearer_client_id is missing",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": str,
                "sasl_oauthbearer_token_file": "/token",
            },
            "say the same",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": str,
                "sasl_scram_tokenauth": True,
            },
            "sasl_scram_tokenauth is of no use with sasl_mechanism=OAUTHBEARER",
        ),
        *(
            (
                {
                    "security_protocol": "SASL_SSL",
                    "sasl_mechanism": "OAUTHBEARER",
                    "sasl_oauthbearer_token_endpoint_url": url,
                },
                "must be a URL that begins with https://",
            )
            for url in (
                "http://idp.test/token",
                "file:///etc/passwd",
                "https://user:canary@idp.test/",
                "https://",
                "https://idp.test:0/",
                "https://idp.test/a b",
                "https://idp.test:99999/",
            )
        ),
        ({"security_protocol": "SASL_SSL", **LOGIN, "sasl_plain_password": ""}, "is empty"),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_plain_password": "canary\0"},
            "sasl_plain_password has a character NUL",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_plain_password": "canary\udc80"},
            "sasl_plain_password cannot be written in UTF-8",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_jaas_config": "x"},
            "sasl_jaas_config and sasl_plain_username say the same",
        ),
        ({"sasl_oauth_token_provider": 1}, "must be an object with a method token, or a function"),
    ],
)
def test_what_cannot_be_meant_is_rejected(settings: dict[str, Any], text: str) -> None:
    """Each text says what to change."""
    found = rejection(settings)
    assert text in found
    assert "canary" not in found


@pytest.mark.parametrize(
    "name", ["ssl_password", "ssl_keydata", "ssl.key.password", "sasl.password"]
)
def test_secrets_are_in_no_error(name: str) -> None:
    """Neither of one that is taken nor of one that is not."""
    assert "canary" not in rejection({name: "canary"})


def test_secrets_are_in_no_repr() -> None:
    """Not in that of the whole configuration either."""
    settings = {"security_protocol": "SSL", "ssl_certdata": "c", "ssl_keydata": "canary"}
    config = ProducerConfig.parse({"bootstrap_servers": "a:1", **settings})
    assert "canary" not in repr(config)
    assert "canary" not in repr(config.security)


@pytest.mark.parametrize("table", [ProducerConfig, ConsumerConfig])
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_secret_is_not_sent_to_other_machines_in_the_clear(
    table: type[ProducerConfig | ConsumerConfig], mechanism: str
) -> None:
    """Said at once, where no broker can be on this machine; a single one may be."""
    login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "PLAIN":
        login |= {"sasl_plain_username": "alice", "sasl_plain_password": Secret("canary")}
    else:
        login |= {"sasl_oauth_token_provider": lambda: "canary"}
    for servers in ("kafka:9092", "192.0.2.1:9092,[2001:db8::1]:9092", "localhost.example.org:1"):
        with pytest.raises(ConfigError, match=r"in the clear, by .*=SASL_SSL, or") as caught:
            table.parse({"bootstrap_servers": servers, **login})
        assert "canary" not in str(caught.value)
        assert table.parse({"bootstrap_servers": servers, **login, "sasl_allow_cleartext": "true"})
    for servers in ("localhost:9092", "LOCALHOST.:1", "a.localhost:1", "127.3.2.1:1", "[::1]:1"):
        assert table.parse({"bootstrap_servers": f"kafka:9092,{servers}", **login})
    scram: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "a"}
    scram |= {"sasl_plain_password": Secret("canary"), "security_protocol": "SASL_PLAINTEXT"}
    assert table.parse({"bootstrap_servers": "kafka:9092", **scram})
