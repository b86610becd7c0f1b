"""What settings of security owe each other; two wishes that contradict each other are an error.

Thread-safety: functions of their arguments.
Source: Kafka's DefaultSslEngineFactory (clients 4.3.1) for what belongs together.
"""

from collections.abc import Mapping

from kprod.config.secret import Secret
from kprod.errors import ConfigError

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

_EITHER = (
    ("ssl_cafile", "ssl_cadata"),
    ("ssl_certfile", "ssl_certdata"),
    ("ssl_keyfile", "ssl_keydata"),
    ("sasl_jaas_config", "sasl_plain_username"),
    ("sasl_jaas_config", "sasl_plain_password"),
)
# (given, what it needs one of)
_NEEDS = (
    ("ssl_keyfile", ("ssl_certfile",)),
    ("ssl_certdata", ("ssl_keydata",)),
    ("ssl_keydata", ("ssl_certdata",)),
    ("ssl_password", ("ssl_certfile", "ssl_keydata")),
)


def check_security(protocol: str, given: Mapping[str, object]) -> None:
    """Refuse what cannot be meant.

    Args:
        protocol: As given, or its default.
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
        if name.startswith("sasl_") and protocol not in SASL_PROTOCOLS:
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


def check_login(protocol: str, values: Mapping[str, object]) -> None:
    """Refuse a login that lacks something.

    Args:
        protocol: As given, or its default.
        values: Of all settings, by field name.

    Raises:
        ConfigError: The mechanism, the name or the password is missing, or cannot be sent.
    """
    if protocol not in SASL_PROTOCOLS:
        return
    for name, what in (
        ("sasl_mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, as the listener has it"),
        ("sasl_plain_username", "who logs in"),
        ("sasl_plain_password", "the user's password"),
    ):
        if values[name] is None:
            raise ConfigError(f"{name} is missing: security_protocol={protocol} needs it, {what}")
        fault = _credential_fault(values[name])
        if fault is not None:
            raise ConfigError(f"{name} {fault}")


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
