"""The table's third part: the peers that a client trusts, and its own identity.

Kafka's names and librdkafka's are accepted here, since people paste them from a vendor's page.

Thread-safety: immutable.
Source: Kafka's CommonClientConfigs and SslConfigs (clients 4.3.1), KIP-651; librdkafka's
CONFIGURATION.md (2.16).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from kprod.config.jaas import login_of
from kprod.config.kinds import SecretText
from kprod.config.login_config import LoginConfig
from kprod.config.reading import read_settings
from kprod.config.security_kinds import (
    TLS_VERSIONS,
    HostnameCheck,
    PlainText,
    TlsContextObject,
    TlsVersionList,
    UpperChoice,
)
from kprod.config.security_rules import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    check_login,
    check_module,
    check_security,
)
from kprod.config.setting import Group
from kprod.config.settings_table import field, row, rows
from kprod.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class SecurityConfig(LoginConfig):
    """Settings of a client's security.

    Thread-safety: immutable.
    """

    security_protocol: str = field(
        default="PLAINTEXT",
        metadata=row(
            "security.protocol",
            UpperChoice(choices=PROTOCOLS),
            Group.SECURITY,
            "Protocol of the listener: with TLS (`SSL`, `SASL_SSL`) or without, and with a login "
            "(`SASL_…`) or without.",
        ),
    )
    ssl_context: "SSLContext | None" = field(
        default=None,
        metadata=row(
            None,
            TlsContextObject(),
            Group.SECURITY,
            "A context of the application's own, used as it is and never changed; no other "
            "setting of TLS goes with it.",
        ),
    )
    ssl_cafile: str | None = field(
        default=None,
        metadata=row(
            "ssl.truststore.location",
            PlainText("path of a PEM or PKCS#12 file, or of a directory that OpenSSL has hashed"),
            Group.SECURITY,
            "The certificate authorities to trust, instead of the system's. PKCS#12 needs "
            "`kprod[tls]`.",
            also=("ssl.ca.location",),
        ),
    )
    ssl_cadata: str | None = field(
        default=None,
        metadata=row(
            "ssl.truststore.certificates",
            PlainText("PEM text"),
            Group.SECURITY,
            "The certificate authorities to trust, instead of the system's, as text.",
            also=("ssl.ca.pem",),
        ),
    )
    ssl_truststore_password: Secret | None = field(
        default=None,
        metadata=row(
            "ssl.truststore.password",
            SecretText(),
            Group.SECURITY,
            "Password of a PKCS#12 file in `ssl_cafile`.",
        ),
    )
    ssl_certfile: str | None = field(
        default=None,
        metadata=row(
            "ssl.keystore.location",
            PlainText("path of a PEM or PKCS#12 file"),
            Group.SECURITY,
            "The client's own certificate and its chain; its key too, where `ssl_keyfile` is not "
            "given. PKCS#12 needs `kprod[tls]`.",
            also=("ssl.certificate.location",),
        ),
    )
    ssl_keyfile: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("path of a PEM file"),
            Group.SECURITY,
            "The key of `ssl_certfile`.",
            also=("ssl.key.location",),
        ),
    )
    ssl_certdata: str | None = field(
        default=None,
        metadata=row(
            "ssl.keystore.certificate.chain",
            PlainText("PEM text"),
            Group.SECURITY,
            "As `ssl_certfile`, as text.",
            also=("ssl.certificate.pem",),
        ),
    )
    ssl_keydata: Secret | None = field(
        default=None,
        metadata=row(
            "ssl.keystore.key",
            SecretText(),
            Group.SECURITY,
            "The key of `ssl_certdata`, as PEM text.",
            also=("ssl.key.pem",),
        ),
    )
    ssl_password: Secret | None = field(
        default=None,
        metadata=row(
            "ssl.key.password",
            SecretText(),
            Group.SECURITY,
            "Password of the client's encrypted private key, or of its PKCS#12 file.",
            also=("ssl.keystore.password",),
        ),
    )
    ssl_check_hostname: bool = field(
        default=True,
        metadata=row(
            "ssl.endpoint.identification.algorithm",
            HostnameCheck(),
            Group.SECURITY,
            "Whether a broker's certificate must be for the name that it was asked by.",
        ),
    )
    ssl_enabled_protocols: tuple[str, ...] = field(
        default=TLS_VERSIONS,
        metadata=row(
            "ssl.enabled.protocols",
            TlsVersionList(),
            Group.SECURITY,
            "The versions of TLS to speak.",
        ),
    )
    ssl_ciphers: str | None = field(
        default=None,
        metadata=row(
            "ssl.cipher.suites",
            PlainText("OpenSSL's names, separated by colons or commas"),
            Group.SECURITY,
            "The ciphers of TLS 1.2 to offer, instead of OpenSSL's choice.",
        ),
    )
    ssl_crlfile: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("path of a PEM file"),
            Group.SECURITY,
            "Certificates that were revoked; a broker's must not be among them.",
            also=("ssl.crl.location",),
        ),
    )

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Check settings as an application wrote them.

        Args:
            settings: The settings for which `is_security_name` is true.

        Returns:
            The configuration, complete and consistent.

        Raises:
            ConfigError: A setting is unknown or wrong, or contradicts another.
        """
        given = read_settings(cls, settings, advice=security_advice_for)
        values: dict[str, Any] = {name: default for name, _, default in rows(cls)} | given
        check_security(values["security_protocol"], given)
        if values["sasl_jaas_config"] is not None:
            mechanism, login = login_of(values["sasl_jaas_config"])
            check_module(mechanism, values["sasl_mechanism"])
            values |= login
        check_login(values["security_protocol"], values)
        return cls(**values)

    @property
    def uses_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.security_protocol in TLS_PROTOCOLS

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in."""
        return self.security_protocol in SASL_PROTOCOLS

    @property
    def principal(self) -> str:
        """User and mechanism, for texts; empty without a login."""
        if not self.uses_sasl:
            return ""
        user = self.sasl_plain_username or self.sasl_kerberos_principal
        return f"{user} ({self.sasl_mechanism})" if user else self.sasl_mechanism or ""


def is_security_name(written: object) -> bool:
    """Whether a setting is one of this part of the table, or would be if it were known.

    Args:
        written: Its name, in any spelling.

    Returns:
        True for names that begin with security, ssl, sasl or https, and for `oauth_cb`.
    """
    beginnings = ("security", "ssl", "sasl", "https", "oauth_cb")
    return isinstance(written, str) and written.lower().startswith(beginnings)


_ANSWERS = {
    "ssl_protocol": "kprod's name is ssl_enabled_protocols",
    "ssl_truststore_type": "kprod sees what a file is by itself; remove it",
    "ssl_keystore_type": "kprod sees what a file is by itself; remove it",
    "sasl_oauthbearer_method": "set sasl_oauthbearer_token_endpoint_url for OIDC; remove it",
    "sasl_login_class": "kprod loads no classes; see sasl_oauth_token_provider",
    "sasl_kerberos_kinit_cmd": "kprod runs no kinit; set sasl_kerberos_keytab, or keep the ticket"
    " cache new",
    "sasl_kerberos_min_time_before_relogin": "kprod runs no kinit; remove it",
    "ssl_engine_factory_class": "kprod loads no classes; pass an ssl_context",
    "ssl_provider": "Python's ssl is the only one; remove it",
    "ssl_secure_random_implementation": "the operating system's is used; remove it",
    "ssl_keymanager_algorithm": "pass an ssl_context for what its settings do not say",
    "ssl_trustmanager_algorithm": "pass an ssl_context for what its settings do not say",
    "ssl_certificate_verify_cb": "pass an ssl_context for what its settings do not say",
    "ssl_ca_certificate_stores": "the system's authorities are the default; remove it",
    "ssl_engine_location": "kprod loads no OpenSSL engines; pass an ssl_context",
    "ssl_engine_id": "kprod loads no OpenSSL engines; pass an ssl_context",
}


_ENDINGS = {
    "callback_handler_class": "kprod loads no classes; see sasl_oauth_token_provider",
}


def security_advice_for(written: str) -> str | None:
    """Say what to do instead of a setting of another client.

    Args:
        written: A name for which `is_security_name` is true.

    Returns:
        A sentence; None for a name that nobody has.
    """
    name = written.lower().replace(".", "_")
    if name in _ANSWERS:
        return _ANSWERS[name]
    return next((advice for ending, advice in _ENDINGS.items() if name.endswith(ending)), None)
