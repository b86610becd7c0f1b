"""Values that only an executor may know: `env:NAME` and `file:/path` in the options of a write.

Options are sent in plain text, in the task that Spark sends to its executors. So a password is
given as a reference to its location, and resolved on the executor. Only this data source does that:
the library itself takes every value literally. Other settings are paths of files, such as that of a
certificate, which must be there on the executor, too.

Invariants.
    A value read here is never part of an error's text: `scrub` replaces it by three stars. Those of
    a password, a key and the like are a `Secret` from the moment they are read.

Thread-safety: functions of their arguments, of the environment and of files.
"""

import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kprod.config import ProducerConfig, SecurityConfig
from kprod.config.jaas import login_of
from kprod.config.kinds import SecretText
from kprod.config.login_kinds import PasswordKind
from kprod.config.setting import Setting
from kprod.config.settings_table import rows
from kprod.errors import ConfigError
from kprod.secret import Secret
from kprod.spark.token_providers import PROVIDER_OPTIONS

__all__ = [
    "ANY_TEXT",
    "OBJECTS",
    "REDACTED",
    "is_reference",
    "resolve",
    "scrub",
    "secrets_in",
    "setting_name",
    "setting_table",
    "takes",
]

REDACTED = "***"
FILE_BYTES_MAX = 1 << 20  # a key or a token is small; a slip of the pen may name a log file

ANY_TEXT = "env:ANY_TEXT"  # accepted only by settings with free text

# Settings that cannot be text.
OBJECTS = frozenset(
    {
        "key_serializer",
        "value_serializer",
        "interceptors",
        "address_filter",
        "ssl_context",
        "sasl_oauth_token_provider",
    }
)

_ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(/.+)")
_PATHS = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_crlfile",
    "https_cafile",
    "sasl_oauthbearer_token_file",
    "sasl_kerberos_keytab",
)
_KEY_LINE_MIN = 16  # characters; the last line of a key may be short enough for any word


def setting_table() -> dict[str, Setting]:
    """Return every spelling of every setting that a text can give, lower-cased as Spark does it."""
    return {spelling: setting for spelling, (_, setting) in _table().items()}


def setting_name(spelling: str) -> str | None:
    """Return a setting's own name.

    Args:
        spelling: Any spelling of it, in lower case.

    Returns:
        The name of its field; None if there is no such setting.
    """
    found = _table().get(spelling)
    return None if found is None else found[0]


@functools.cache
def _table() -> Mapping[str, tuple[str, Setting]]:
    settings = [*rows(ProducerConfig), *rows(SecurityConfig)]
    named = [(name, setting) for name, setting, _ in settings] + list(PROVIDER_OPTIONS.items())
    return {
        spelling.lower(): (name, setting)
        for name, setting in named
        if name not in OBJECTS
        for spelling in setting.spellings(name)
    }


def takes(setting: Setting, text: str) -> bool:
    """Whether a text is a valid value of a setting.

    Args:
        setting: A setting of the producer.
        text: The option's value, with references resolved.

    Returns:
        Whether it is of the setting's kind.
    """
    try:
        setting.kind.convert(text)
    except ValueError:
        return False
    return True


def is_reference(text: str) -> bool:
    """Whether a value is a reference to a place to read from.

    Args:
        text: The option's value. `env:9092` is a host and a port: no variable has that name.

    Returns:
        Whether it is `env:NAME` or `file:/path`.
    """
    return bool(_ENVIRONMENT.fullmatch(text) or _FILE.fullmatch(text))


def resolve(settings: Mapping[str, str]) -> dict[str, str | Secret]:
    """Replace each reference by what it refers to on this machine.

    Args:
        settings: Names and values as the options have them.

    Returns:
        The same names; a file's trailing line break is left out.

    Raises:
        ConfigError: A variable is not set here, or a file cannot be read, or that of a path is not
            there; the text names both the setting and the place.
    """
    resolved = {name: _resolved(name, text) for name, text in settings.items()}
    for name, path in resolved.items():
        if isinstance(path, str) and setting_name(name) in _PATHS and not _is_there(path):
            where = settings[name] if is_reference(settings[name]) else path
            raise ConfigError(
                f"{name}={where}: there is no such file where this task runs; it must be on every"
                " executor"
            )
    return resolved


def secrets_in(
    settings: Mapping[str, str], resolved: Mapping[str, str | Secret]
) -> tuple[Secret, ...]:
    """Collect the secret values, which no log line or error text may contain.

    Args:
        settings: Names and values as in the options.
        resolved: The same settings, after `resolve`.

    Returns:
        The values of settings that are secrets, with the passwords in a login of Java's form and
        the lines of a key, and those that were read from elsewhere, unless they are a number, a
        choice or addresses of a setting that takes nothing else. Longest first.
    """
    table = setting_table()
    found: set[Secret] = set()
    for name, value in resolved.items():
        if isinstance(value, Secret):
            found |= {value, *_secret_parts(name, value)}
        elif _is_secret(settings[name], value, table.get(name)):
            found.add(Secret(value))
    return tuple(sorted(filter(_length, found), key=_length, reverse=True))


def _length(secret: Secret) -> int:
    return len(secret.reveal())


def _is_secret(given: str, value: str, setting: Setting | None) -> bool:
    if setting is None:
        return True
    return is_reference(given) and not _is_plain(value, setting)


def _secret_parts(name: str, value: Secret) -> Iterable[Secret]:
    """Return parts of a secret that an error may show alone."""
    if setting_name(name) == "sasl_jaas_config":
        try:
            _, login = login_of(value)
        except ConfigError:
            return ()
        return [part for part in login.values() if isinstance(part, Secret)]
    lines = map(Secret, value.reveal().splitlines()[1:-1])  # of a key, between its marks
    return [line for line in lines if _length(line) >= _KEY_LINE_MIN]


def _is_plain(value: str, setting: Setting) -> bool:
    """Whether a value is a number, a choice or addresses, where nothing else is allowed."""
    return not takes(setting, ANY_TEXT) and takes(setting, value)


def _is_there(path: str) -> bool:
    return Path(path.removeprefix("FILE:")).exists()


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """Replace each secret in a text.

    Args:
        text: The error's text.
        secrets: The result of `secrets_in`.

    Returns:
        It, with three stars for each.
    """
    for secret in secrets:
        # A repr inside a text writes backslashes and line breaks in its own way.
        text = text.replace(secret.reveal(), REDACTED)
        text = text.replace(repr(secret.reveal())[1:-1], REDACTED)
    return text


def _resolved(name: str, text: str) -> str | Secret:
    found = _table().get(name)
    is_secret = found is not None and isinstance(found[1].kind, SecretText | PasswordKind)
    return Secret(_looked_up(name, text)) if is_secret else _looked_up(name, text)


def _looked_up(name: str, text: str) -> str:
    if variable := _ENVIRONMENT.fullmatch(text):
        if variable[1] not in os.environ:
            raise ConfigError(
                f"{name}={text}: there is no environment variable {variable[1]} where this task"
                f" runs; set it on every executor (spark.executorEnv.{variable[1]})"
            )
        return os.environ[variable[1]]
    if place := _FILE.fullmatch(text):
        return _read(name, Path(place[1]))
    return text


def _read(name: str, path: Path) -> str:
    try:
        text, fault = _text_or_fault(path)
    except OSError as error:
        raise ConfigError(
            f"{name}=file:{path} cannot be read where this task runs: {error.strerror}; the file"
            " must be on every executor"
        ) from None
    if fault is not None:
        raise ConfigError(f"{name}: {path} {fault}")
    return text


def _text_or_fault(path: Path) -> tuple[str, str | None]:
    """Return a file's text, or a fault: the error of `_read` has no byte of it in its frames."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        return "", f"is longer than {FILE_BYTES_MAX} bytes"
    try:
        return content.decode().rstrip("\r\n"), None
    except UnicodeDecodeError:
        return "", "is not UTF-8 text"
