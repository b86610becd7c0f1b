"""Parses `sasl.jaas.config`, Java's way to write a login, for the modules that kprod supports.

Only texts are extracted. No class is loaded, and an unknown module is rejected: in Java such texts
have loaded code from the network (CVE-2023-25194).

Thread-safety: pure functions.
Source: Kafka's JaasConfig (clients 4.3.1) and Java's StreamTokenizer, which it reads with;
CVE-2023-25194, CVE-2025-27818.
"""

import re
import string
from collections.abc import Mapping
from typing import NamedTuple

from kprod.config.quoting import shown
from kprod.errors import ConfigError
from kprod.secret import Secret

TEXT_MAX = 64 << 10
_PREFIX = "org.apache.kafka.common.security."
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD = {"username": "sasl_plain_username", "password": "sasl_plain_password"}
_KERBEROS_IGNORED = frozenset(
    {"useKeyTab", "storeKey", "useTicketCache", "refreshKrb5Config", "doNotPrompt", "debug"}
)


class _Module(NamedTuple):
    """A module of Java's, and kprod's settings for its options."""

    mechanisms: tuple[str, ...]
    settings: Mapping[str, str]
    needed: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()


_MODULES = {
    f"{_PREFIX}plain.PlainLoginModule": _Module(
        ("PLAIN",), _PASSWORD, tuple(_PASSWORD), frozenset({"serviceName"})
    ),
    f"{_PREFIX}scram.ScramLoginModule": _Module(
        _SCRAM,
        {**_PASSWORD, "tokenauth": "sasl_scram_tokenauth"},
        tuple(_PASSWORD),
        frozenset({"serviceName"}),
    ),
    f"{_PREFIX}oauthbearer.OAuthBearerLoginModule": _Module(
        ("OAUTHBEARER",),
        {
            "clientId": "sasl_oauthbearer_client_id",
            "clientSecret": "sasl_oauthbearer_client_secret",
            "scope": "sasl_oauthbearer_scope",
        },
    ),
    "com.sun.security.auth.module.Krb5LoginModule": _Module(
        ("GSSAPI",),
        {
            "keyTab": "sasl_kerberos_keytab",
            "principal": "sasl_kerberos_principal",
            "serviceName": "sasl_kerberos_service_name",
        },
        ignored=_KERBEROS_IGNORED,
    ),
}
_SECRETS = frozenset({"sasl_plain_password", "sasl_oauthbearer_client_secret"})
_EXTENSION = "extension_"
_DOUBLE, _SINGLE, _BARE = r'"((?:[^"\\]|\\.)*)"', r"'((?:[^'\\]|\\.)*)'", r"""([^\s"';=]+)"""
_VALUE = rf"(?:{_DOUBLE}|{_SINGLE}|{_BARE})"
_ENTRY = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)"
    rf"(?P<options>(?:\s+\w+\s*=\s*{_VALUE})*)\s*;\s*",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"(\w+)\s*=\s*{_VALUE}")
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def login_of(login: Secret) -> tuple[tuple[str, ...], Mapping[str, object]]:
    """Read a login.

    Args:
        login: `module required username="…" password="…";`

    Returns:
        The mechanisms that the module is for, and kprod's settings.

    Raises:
        ConfigError: It is malformed, or of a module or an option that kprod does not have; nothing
            of its values is shown.
    """
    module, settings, fault = _read(login.reveal())
    if fault is not None or module is None:
        raise ConfigError(f"sasl_jaas_config {fault}")
    return module.mechanisms, settings


def _read(text: str) -> tuple[_Module | None, Mapping[str, object], str | None]:
    """Read a login, or a fault: what raises an error has no password among its locals."""
    match = _ENTRY.fullmatch(text) if len(text) <= TEXT_MAX else None
    if match is None:
        return None, {}, 'is not of the form: MODULE required username="…" password="…";'
    module = _MODULES.get(match[1])
    if module is None:
        return None, {}, f"names a module that kprod does not have; it has {' and '.join(_MODULES)}"
    options = {
        name: bare or _ESCAPE.sub(_unescaped, double or single)
        for name, double, single, bare in _OPTION.findall(match["options"])
    }
    settings: dict[str, object] = {}
    extensions: dict[str, str] = {}
    for name, value in options.items():
        if name in module.settings:
            settings[module.settings[name]] = _converted(module.settings[name], value)
        elif name.startswith(_EXTENSION) and module.mechanisms == ("OAUTHBEARER",):
            extensions[name.removeprefix(_EXTENSION)] = value
        elif name not in module.ignored:
            known = ", ".join(module.settings)
            return None, {}, f"has an option {shown(name)} that kprod does not have; it has {known}"
    missing = [name for name in module.needed if not options.get(name)]
    if missing:
        return None, {}, f"has no {missing[0]}"
    if extensions:
        settings["sasl_oauthbearer_extensions"] = extensions
    return module, settings, None


def _unescaped(match: re.Match[str]) -> str:
    """Decode one escape sequence of a quoted text into its character, as Java does."""
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in string.octdigits else _ESCAPED.get(escape, escape)


def _converted(setting: str, value: str) -> object:
    if setting in _SECRETS:
        return Secret(value)
    return value.lower() == "true" if setting == "sasl_scram_tokenauth" else value
