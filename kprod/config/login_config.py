"""The settings of logins: SASL mechanisms, and the credentials of each.

Kafka's names and librdkafka's are accepted here, since people paste them from a vendor's page.

Thread-safety: immutable.
Source: Kafka's SaslConfigs (clients 4.3.1); librdkafka's CONFIGURATION.md (2.16).
"""

from typing import TYPE_CHECKING

from kprod.config.kinds import Flag, SecretText
from kprod.config.login_kinds import Extensions, HttpsUrl, PasswordKind, TokenProviderObject
from kprod.config.security_kinds import PlainText, UpperChoice
from kprod.config.setting import Group
from kprod.config.settings_table import Table, field, row
from kprod.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kprod.interfaces import TokenProvider

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


class LoginConfig(Table):
    """Settings of a client's logins.

    Thread-safety: immutable.
    """

    sasl_mechanism: str | None = field(
        default=None,
        metadata=row(
            "sasl.mechanism",
            UpperChoice(choices=MECHANISMS),
            Group.SECURITY,
            "SASL mechanism of the login; the listener must support it.",
            also=("sasl.mechanisms",),
        ),
    )
    sasl_plain_username: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("a name"),
            Group.SECURITY,
            "The user that logs in, by PLAIN or SCRAM.",
            also=("sasl.username",),
        ),
    )
    sasl_plain_password: "Secret | Callable[[], object] | None" = field(
        default=None,
        metadata=row(
            None,
            PasswordKind(),
            Group.SECURITY,
            "The user's password, for PLAIN or SCRAM, which never sends it. A function is asked "
            "before each login, in a thread of its own, so that a password can change.",
            also=("sasl.password",),
        ),
    )
    sasl_scram_tokenauth: bool = field(
        default=False,
        metadata=row(
            None,
            Flag(),
            Group.SECURITY,
            "Log in with a delegation token by SCRAM: the name is the token's id, the password "
            "its HMAC in base64.",
        ),
    )
    sasl_oauth_token_provider: "TokenProvider | Callable[..., object] | None" = field(
        default=None,
        metadata=row(
            None,
            TokenProviderObject(),
            Group.SECURITY,
            "Gives the tokens of OAUTHBEARER, in a thread of its own. `kprod.providers` has some.",
            also=("oauth_cb",),
        ),
    )
    sasl_oauthbearer_token_file: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("path of a file that holds a token"),
            Group.SECURITY,
            "A file that something else keeps new, as Kubernetes does; read for each token.",
        ),
    )
    sasl_oauthbearer_token_endpoint_url: str | None = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.token.endpoint.url",
            HttpsUrl(),
            Group.SECURITY,
            "Token endpoint of an OIDC server, which gets the client's id and secret. Requests use "
            "TLS and no proxy, and redirects are not followed.",
        ),
    )
    sasl_oauthbearer_client_id: str | None = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.client.credentials.client.id",
            PlainText("an id"),
            Group.SECURITY,
            "The client's id at the OIDC server.",
            also=("sasl.oauthbearer.client.id",),
        ),
    )
    sasl_oauthbearer_client_secret: Secret | None = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.client.credentials.client.secret",
            SecretText(),
            Group.SECURITY,
            "The client's secret at the OIDC server.",
            also=("sasl.oauthbearer.client.secret",),
        ),
    )
    sasl_oauthbearer_scope: str | None = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.scope",
            PlainText("names separated by spaces"),
            Group.SECURITY,
            "Scope of the requested token.",
        ),
    )
    sasl_oauthbearer_extensions: "Mapping[str, str] | None" = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.extensions",
            Extensions(),
            Group.SECURITY,
            "Further fields of the login, such as Confluent Cloud's `logicalCluster`.",
        ),
    )
    sasl_oauthbearer_config: str | None = field(
        default=None,
        metadata=row(
            "sasl.oauthbearer.config",
            PlainText("a text"),
            Group.SECURITY,
            "The argument of a token provider that takes one, as librdkafka's `oauth_cb` does.",
        ),
    )
    https_cafile: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("path of a PEM file"),
            Group.SECURITY,
            "The certificate authorities to trust for the OIDC server, instead of the brokers'.",
            also=("https.ca.location",),
        ),
    )
    sasl_kerberos_service_name: str = field(
        default="kafka",
        metadata=row(
            "sasl.kerberos.service.name",
            PlainText("a name"),
            Group.SECURITY,
            "The first part of the brokers' Kerberos principals.",
        ),
    )
    sasl_kerberos_principal: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("a principal"),
            Group.SECURITY,
            "The principal that logs in by GSSAPI; the default of the keytab or of the ticket cache"
            " otherwise.",
            also=("sasl.kerberos.principal",),
        ),
    )
    sasl_kerberos_keytab: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("path of a keytab"),
            Group.SECURITY,
            "The keys of GSSAPI's principal; without it, the ticket cache is used. No `kinit` is "
            "run.",
            also=("sasl.kerberos.keytab",),
        ),
    )
    sasl_kerberos_domain_name: str | None = field(
        default=None,
        metadata=row(
            None,
            PlainText("a host name"),
            Group.SECURITY,
            "The host in the brokers' principals, where it is not the one they are asked by.",
        ),
    )
    sasl_jaas_config: Secret | None = field(
        default=None,
        metadata=row(
            "sasl.jaas.config",
            SecretText(),
            Group.SECURITY,
            "A login in Java's form, instead of the settings before.",
        ),
    )
    sasl_allow_cleartext: bool = field(
        default=False,
        metadata=row(
            None,
            Flag(),
            Group.SECURITY,
            "Let PLAIN send the password, and OAUTHBEARER the token, without TLS to other "
            "addresses than loopback ones.",
        ),
    )
