"""Values that only an executor may know: `env:NAME` and `file:/path` in the options of a write.

Options are sent in plain text, in the task that Spark sends to its executors. So a password is
given as a reference to its location, and resolved on the executor. Only this data source does that:
the library itself takes every value literally.

Invariants.
    A value read here is never part of an error's text: `scrub` replaces it by three stars.

Thread-safety: functions of their arguments, of the environment and of files.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kprod.config import ProducerConfig
from kprod.config.setting import Setting
from kprod.config.settings_table import rows
from kprod.errors import ConfigError

__all__ = [
    "ANY_TEXT",
    "FUNCTIONS",
    "REDACTED",
    "is_reference",
    "resolve",
    "scrub",
    "secrets_in",
    "setting_table",
    "takes",
]

REDACTED = "***"
FILE_BYTES_MAX = 1 << 20  # a key or a token is small; a slip of the pen may name a log file

ANY_TEXT = "env:ANY_TEXT"  # accepted only by settings with free text

# Settings that cannot be text; the columns' types determine the format instead.
FUNCTIONS = frozenset({"key_serializer", "value_serializer", "interceptors"})

_ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_FILE = re.compile(r"file:(/.+)")
_SENSITIVE = re.compile(r"password|secret|token|jaas|credential|private|key\.pem|ssl_key|ssl\.key")


def setting_table() -> dict[str, Setting]:
    """Return every spelling of every setting that a text can give, lower-cased as Spark does it."""
    return {
        spelling.lower(): setting
        for name, setting, _ in rows(ProducerConfig)
        if name not in FUNCTIONS
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


def resolve(settings: Mapping[str, str]) -> dict[str, str]:
    """Replace each reference by what it refers to on this machine.

    Args:
        settings: Names and values as the options have them.

    Returns:
        The same names; a file's trailing line break is left out.

    Raises:
        ConfigError: A variable is not set here, or a file cannot be read; the text names both the
            setting and the place.
    """
    return {name: _resolved(name, text) for name, text in settings.items()}


def secrets_in(settings: Mapping[str, str], resolved: Mapping[str, str]) -> tuple[str, ...]:
    """Collect the secret values, which no log line or error text may contain.

    Args:
        settings: Names and values as in the options.
        resolved: The same settings, after `resolve`.

    Returns:
        The values of settings with sensitive names, and those that were read from elsewhere, unless
        they are a number, a choice or addresses of a setting that takes nothing else. Longest
        first.
    """
    table = setting_table()
    found = {
        value
        for name, value in resolved.items()
        if value and _is_secret(name, settings[name], value, table.get(name))
    }
    return tuple(sorted(found, key=len, reverse=True))


def _is_secret(name: str, given: str, value: str, setting: Setting | None) -> bool:
    if _SENSITIVE.search(name) or setting is None:
        return True
    return is_reference(given) and not _is_plain(value, setting)


def _is_plain(value: str, setting: Setting) -> bool:
    """Whether a value is a number, a choice or addresses, where nothing else is allowed."""
    return not takes(setting, ANY_TEXT) and takes(setting, value)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret in a text.

    Args:
        text: The error's text.
        secrets: The result of `secrets_in`.

    Returns:
        It, with three stars for each.
    """
    for secret in secrets:
        # A repr inside a text writes backslashes and line breaks in its own way.
        text = text.replace(secret, REDACTED).replace(repr(secret)[1:-1], REDACTED)
    return text


def _resolved(name: str, text: str) -> str:
    if variable := _ENVIRONMENT.fullmatch(text):
        value = os.environ.get(variable[1])
        if value is None:
            raise ConfigError(
                f"{name}={text}: there is no environment variable {variable[1]} where this task"
                f" runs; set it on every executor (spark.executorEnv.{variable[1]})"
            )
        return value
    if place := _FILE.fullmatch(text):
        return _read(name, Path(place[1]))
    return text


def _read(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigError(f"{name}: {path} is longer than {FILE_BYTES_MAX} bytes")
        return content.decode().rstrip("\r\n")
    except OSError as error:
        raise ConfigError(
            f"{name}=file:{path} cannot be read where this task runs: {error.strerror}; the file"
            " must be on every executor"
        ) from None
    except UnicodeDecodeError:
        # Its text would hold the bytes.
        raise ConfigError(f"{name}: {path} is not UTF-8 text") from None
