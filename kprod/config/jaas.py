"""Java's way to write a login (`sasl.jaas.config`), read by a grammar of the modules that count.

Only texts come out of it. No class is loaded, and a module that is not known is refused: in Java
such texts have loaded code from the network (CVE-2023-25194).

Thread-safety: functions of their arguments.
Source: Kafka's JaasConfig (clients 4.3.1); CVE-2023-25194, CVE-2025-27818.
"""

import re
from collections.abc import Mapping

from kprod.errors import ConfigError

TEXT_MAX = 64 << 10
_PREFIX = "org.apache.kafka.common.security."
_KNOWN = (f"{_PREFIX}plain.PlainLoginModule", f"{_PREFIX}scram.ScramLoginModule")
_ENTRY = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)((?:\s+\w+\s*=\s*"
    r"(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";=]+))*)\s*;\s*",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\";=]+))")


def login_of(text: str) -> Mapping[str, str]:
    """Read a login.

    Args:
        text: `module required username="…" password="…";`

    Returns:
        `username` and `password`.

    Raises:
        ConfigError: It is malformed, or of a module that kprod does not have; nothing of its
            values is shown.
    """
    options, fault = _read(text)
    if fault is not None:
        raise ConfigError(f"sasl_jaas_config {fault}")
    return options


def _read(text: str) -> tuple[Mapping[str, str], str | None]:
    """Read a login, or a fault: what raises an error has no password among its locals."""
    match = _ENTRY.fullmatch(text) if len(text) <= TEXT_MAX else None
    if match is None:
        return {}, 'is not of the form: MODULE required username="…" password="…";'
    if match[1] not in _KNOWN:
        return {}, f"names a module that kprod does not have; it has {' and '.join(_KNOWN)}"
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
        for name, quoted, bare in _OPTION.findall(match[2])
    }
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        return {}, f"has no {missing[0]}"
    return {name: options[name] for name in ("username", "password")}, None
