"""Settings from a file: Java's `.properties`, as Kafka's tools take them, or TOML.

Values are taken literally: no references to the environment or to other files are resolved. Errors
show no values, since a value may be a password.

Thread-safety: pure functions.
Source: java.util.Properties.load (JDK 17) for the form; TOML 1.0; CVE-2024-31141 for why values are
not looked up.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from kprod.errors import ConfigError

FILE_BYTES_MAX = 1 << 20
_SEPARATOR = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_config_file(path: str | Path) -> dict[str, object]:
    """Read the settings in a file.

    Args:
        path: A name that ends in `.toml`, or any other for `.properties`. In TOML a table's name
            and a dot come before the names in it; lists are for settings that are lists.

    Returns:
        Values by name, as an application would write them; texts, or what TOML has.

    Raises:
        ConfigError: The file cannot be read, is too large, or is malformed; the text has the line.
    """
    settings, fault = _read(Path(path))
    if fault is not None:
        raise ConfigError(f"configuration file {str(path)!r} {fault}")
    return settings


def with_overrides(
    settings: Mapping[str, object], overrides: Mapping[str, object]
) -> dict[str, object]:
    """Let some settings override others, whether their names have dots or underscores.

    Args:
        settings: The settings to change, such as a file's.
        overrides: Settings that win, such as those of a command line.

    Returns:
        All of the second, and those of the first that the second does not name.
    """
    named = set(map(_plain, overrides))
    kept = {name: value for name, value in settings.items() if _plain(name) not in named}
    return {**kept, **overrides}


def parse_properties(text: str) -> dict[str, str]:
    """Read Java's form of settings.

    Args:
        text: Lines of `name=value`; the last one of a name counts, as in Java.

    Returns:
        Values by name.

    Raises:
        ValueError: An escape is malformed; the text has the line, and no value.
    """
    settings: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _SEPARATOR.fullmatch(line)
        name, value = ("", "") if match is None else match.groups()
        for part in (name, value):
            if any(found[1] == "u" for found in _ESCAPE.finditer(part)):
                raise ValueError(f"has a malformed \\uXXXX in line {number}")
        settings[_unescaped(name)] = _unescaped(value)
    return settings


def _read(path: Path) -> tuple[dict[str, object], str | None]:
    """Read settings, or a fault: what raises an error has no value among its locals."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return {}, f"cannot be read: {error.strerror or error}"
    if len(content) > FILE_BYTES_MAX:
        return {}, f"has more than {FILE_BYTES_MAX} bytes"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return {}, "is not written in UTF-8"
    return _parsed(text, is_toml=path.suffix.lower() == ".toml")


def _parsed(text: str, *, is_toml: bool) -> tuple[dict[str, object], str | None]:
    try:
        return dict(_flat(tomllib.loads(text)) if is_toml else parse_properties(text)), None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at [^)]*\)$", str(error))
        return {}, f"is malformed {place[0] if place else ''}".rstrip()
    except ValueError as error:
        return {}, str(error)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with a backslash at their end put together; without comments and empty ones."""
    waiting, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(" \t\f")
        if not waiting:
            first = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            waiting += line[:-1]
            continue
        if waiting or line:
            yield first, waiting + line
        waiting = ""
    if waiting:
        yield first, waiting


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(meant, text)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _plain(name: str) -> str:
    return name.lower().replace(".", "_")
