"""Rules between security settings; two that contradict each other are an error.

Thread-safety: pure functions.
Source: Kafka's DefaultSslEngineFactory (clients 4.3.1) for what belongs together.
"""

from collections.abc import Iterable, Mapping

from kprod.errors import ConfigError
from kprod.secret import Secret

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

_EITHER = (
    ("ssl_cafile", "ssl_cadata"),
    ("ssl_certfile", "ssl_certdata"),
    ("ssl_keyfile", "ssl_keydata"),
    ("sasl_jaas_config", "sasl_plain_username"),
    ("sasl_jaas_config", "sasl_plain_password"),
    ("sasl_jaas_config", "sasl_oauthbearer_client_id"),
    ("sasl_jaas_config", "sasl_kerberos_keytab"),
    ("sasl_oauth_token_provider", "sasl_oauthbearer_token_endpoint_url"),
    ("sasl_oauth_token_provider", "sasl_oauthbearer_token_file"),
    ("sasl_oauthbearer_token_file", "sasl_oauthbearer_token_endpoint_url"),
)
# (given, what it needs one of)
_NEEDS = (
    ("ssl_keyfile", ("ssl_certfile",)),
    ("ssl_certdata", ("ssl_keydata",)),
    ("ssl_keydata", ("ssl_certdata",)),
    ("ssl_password", ("ssl_certfile", "ssl_keydata")),
    ("ssl_truststore_password", ("ssl_cafile",)),
    ("sasl_oauthbearer_client_id", ("sasl_oauthbearer_token_endpoint_url",)),
    ("sasl_oauthbearer_client_secret", ("sasl_oauthbearer_token_endpoint_url",)),
    ("sasl_oauthbearer_scope", ("sasl_oauthbearer_token_endpoint_url",)),
    ("https_cafile", ("sasl_oauthbearer_token_endpoint_url",)),
)


def check_security(protocol: str, given: Mapping[str, object]) -> None:
    """Reject contradictory or incomplete security settings.

    Args:
        protocol: The given security protocol, or the default.
        given: The settings that the application gave, by field name.

    Raises:
        ConfigError: Two contradict each other, one needs another, or one is for another protocol.
    """
    wanted = {name for name, value in given.items() if value is not None}
    for name in sorted(wanted):
        if name.startswith("ssl_") and protocol not in TLS_PROTOCOLS:
            raise ConfigError(
                f"{name} is of no use with security_protocol={protocol}, which is not encrypted;"
                f" set security_protocol={' or '.join(TLS_PROTOCOLS)}, or remove {name}"
            )
        if name.startswith(("sasl_", "https_")) and protocol not in SASL_PROTOCOLS:
            raise ConfigError(
                f"{name} is of no use with security_protocol={protocol}, which logs nobody in;"
                f" set security_protocol={' or '.join(SASL_PROTOCOLS)}, or remove {name}"
            )
    others = sorted(name for name in wanted if name.startswith("ssl_") and name != "ssl_context")
    if "ssl_context" in wanted and others:
        raise ConfigError(
            f"ssl_context and {others[0]} contradict each other: a context is used as it is;"
            f" say what {others[0]} says in the context, or leave ssl_context out"
        )
    for first, second in _EITHER:
        if {first, second} <= wanted:
            raise ConfigError(f"{first} and {second} say the same; give one of them")
    for name, needed in _NEEDS:
        if name in wanted and wanted.isdisjoint(needed):
            raise ConfigError(f"{name} needs {' or '.join(needed)}, which is not given")


IN_THE_CLEAR = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""Mechanisms that send a secret as it is."""


def check_cleartext(mechanism: str | None, hosts: Iterable[str]) -> None:
    """Reject a login that would send a secret unencrypted, where no broker is on this machine.

    Names are not resolved here, so a name other than `localhost` counts as another machine's.

    Args:
        mechanism: The mechanism of a login without TLS; None for none.
        hosts: The hosts to ask first.

    Raises:
        ConfigError: The mechanism sends a password or a token, and no host is a loopback one.
    """
    if mechanism not in IN_THE_CLEAR or any(map(_is_this_machine, hosts)):
        return
    raise ConfigError(
        f"{IN_THE_CLEAR[mechanism]} would be sent in the clear, by {mechanism} without TLS, and no"
        " host in bootstrap_servers is this machine; set security_protocol=SASL_SSL, or"
        " sasl_allow_cleartext=True if the network is trusted"
    )


def _is_this_machine(host: str) -> bool:
    import ipaddress  # noqa: PLC0415 - few logins are in the clear

    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


_PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_MECHANISMS = (
    ("sasl_plain_", _PASSWORDS),
    ("sasl_scram_", _PASSWORDS[1:]),
    ("sasl_oauth", ("OAUTHBEARER",)),
    ("sasl_kerberos_", ("GSSAPI",)),
)
_TOKEN_SOURCES = (
    "sasl_oauth_token_provider",
    "sasl_oauthbearer_token_file",
    "sasl_oauthbearer_token_endpoint_url",
)


def check_module(module: tuple[str, ...], mechanism: str | None) -> None:
    """Reject a login in Java's form that is of another mechanism.

    Args:
        module: The mechanisms that the module is for.
        mechanism: `sasl_mechanism`; None if it is not given.

    Raises:
        ConfigError: They do not agree.
    """
    if mechanism is not None and mechanism not in module:
        raise ConfigError(
            f"sasl_jaas_config is for {' or '.join(module)}, and sasl_mechanism={mechanism}"
        )


def check_login(protocol: str, values: Mapping[str, object]) -> None:
    """Reject a login that lacks something.

    Args:
        protocol: The given security protocol, or the default.
        values: All settings, by field name.

    Raises:
        ConfigError: The mechanism or its credentials are missing, or cannot be sent, or there are
            those of two mechanisms.
    """
    if protocol not in SASL_PROTOCOLS:
        return
    mechanism = values["sasl_mechanism"]
    if mechanism is None:
        names = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"
        raise ConfigError(
            f"sasl_mechanism is missing: security_protocol={protocol} needs it, {names}, as the"
            " listener has it"
        )
    _reject_others(str(mechanism), values)
    if mechanism in _PASSWORDS:
        _check_password(protocol, values)
    elif mechanism == "OAUTHBEARER":
        _check_tokens(protocol, values)


def _reject_others(mechanism: str, values: Mapping[str, object]) -> None:
    """Reject credentials of a mechanism that is not used."""
    for name, value in values.items():
        if (
            value is None
            or value is False
            or (name, value) == ("sasl_kerberos_service_name", "kafka")
        ):
            continue
        for beginning, mechanisms in _OF_MECHANISMS:
            if name.startswith(beginning) and mechanism not in mechanisms:
                raise ConfigError(
                    f"{name} is of no use with sasl_mechanism={mechanism}; set sasl_mechanism="
                    f"{' or '.join(mechanisms)}, or remove {name}"
                )


def _check_password(protocol: str, values: Mapping[str, object]) -> None:
    for name, what in (
        ("sasl_plain_username", "the user that logs in"),
        ("sasl_plain_password", "the user's password"),
    ):
        if values[name] is None:
            raise ConfigError(_missing(name, protocol, what))
        fault = None if callable(values[name]) else _credential_fault(values[name])
        if fault is not None:
            raise ConfigError(f"{name} {fault}")


def _check_tokens(protocol: str, values: Mapping[str, object]) -> None:
    if all(values[name] is None for name in _TOKEN_SOURCES):
        others = f"or {' or '.join(_TOKEN_SOURCES[1:])}"
        raise ConfigError(_missing(_TOKEN_SOURCES[0], protocol, others))
    if values[_TOKEN_SOURCES[2]] is not None:
        for name in ("sasl_oauthbearer_client_id", "sasl_oauthbearer_client_secret"):
            if values[name] is None:
                what = "which the OIDC server knows the client by"
                raise ConfigError(_missing(name, protocol, what))


def _missing(name: str, protocol: str, what: str) -> str:
    return f"{name} is missing: security_protocol={protocol} needs it, {what}"


def _credential_fault(value: object) -> str | None:
    text = value.reveal() if isinstance(value, Secret) else str(value)
    if not text:
        return "is empty"
    if "\0" in text:
        return "has a character NUL, which ends it on the wire"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "cannot be written in UTF-8"
    return None
