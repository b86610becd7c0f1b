"""Write `docs/configuration.md` and `docs/consumer_configuration.md` from the tables of settings.

Run by `make docs`; a test compares the pages with what this module returns.
"""

import enum
from collections.abc import Mapping
from pathlib import Path

from kprod.config import ClientConfig, ProducerConfig, SecurityConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.consumer_kinds import ResetPolicy
from kprod.config.foreign import renamed
from kprod.config.foreign_consumer import renamed_of_consumer
from kprod.config.setting import Group, Setting
from kprod.config.settings_table import MISSING, rows

_DOCS = Path(__file__).parent.parent / "docs"
PAGE = _DOCS / "configuration.md"
CONSUMER_PAGE = _DOCS / "consumer_configuration.md"

_HEAD = """\
# Configuration

Generated from the table in `kprod/config` by `make docs`; do not edit.

Settings are keyword arguments of `Producer`. Kafka's dotted names work as well, in a dictionary:
`Producer(**{"bootstrap.servers": "localhost:9092", "linger.ms": 5})`. Both spellings of one setting
with different values are an error, and so is an unknown name: the error names the nearest known
one.

Numbers and flags may be given as texts (`"5"`, `"true"`), as a properties file has them. Nothing is
imported by name, and nothing is looked up in the environment or in files: `${file:…}` stays what it
is. Times are whole milliseconds, sizes whole bytes.

A given setting is never changed silently: two settings that contradict each other are an error;
a default that conflicts with a given setting gives way, and the log says so.
"""

_CONSUMER_HEAD = """\
# Configuration of a consumer

Generated from the table in `kprod/config` by `make docs`; do not edit.

Settings are keyword arguments of `Consumer`. Kafka's dotted names work as well, in a dictionary:
`Consumer("orders", settings={"bootstrap.servers": "localhost:9092", "fetch.max.wait.ms": 100})`.
Both spellings of one setting with different values are an error, and so is an unknown name: the
error names the nearest known one.

Numbers and flags may be given as texts (`"5"`, `"true"`), as a properties file has them. Nothing is
imported by name, and nothing is looked up in the environment or in files: `${file:…}` stays what it
is. Times are whole milliseconds, sizes whole bytes.

A given setting is never changed silently: two settings that contradict each other are an error;
a default that conflicts with a given setting gives way, and the log says so.
"""

_COLUMNS = """\
| setting | default | accepts | meaning |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page of a producer's settings."""
    return _HEAD + _tables(ProducerConfig, renamed())


def consumer_page() -> str:
    """Return the whole page of a consumer's settings."""
    return _CONSUMER_HEAD + _tables(ConsumerConfig, renamed_of_consumer())


def _tables(table: type[ClientConfig], foreign_names: Mapping[str, str]) -> str:
    parts: list[str] = []
    for group in Group:
        lines = [
            _line(name, setting, default)
            for name, setting, default in (*rows(table), *rows(SecurityConfig))
            if setting.group is group
        ]
        parts += [f"\n## {group.value}\n\n{_COLUMNS}", *lines] if lines else []
    parts.append(
        "\n## Other clients' names\n\nThese are not accepted; the error for them gives kprod's.\n\n"
        "| elsewhere | here |\n|---|---|\n"
    )
    parts += [f"| `{foreign}` | `{name}` |\n" for foreign, name in sorted(foreign_names.items())]
    return "".join(parts)


def _line(name: str, setting: Setting, default: object) -> str:
    names = f"`{name}`"
    dotted = setting.kafka_name
    if dotted is None and not setting.also:
        names += "<br>(not in Kafka)"
    for other in (dotted, *setting.also):
        names += f"<br>`{other}`" if other not in {None, name} else ""
    unit = f" ({setting.unit})" if setting.unit else ""
    accepts = setting.kind.describe() + unit
    return f"| {names} | {default_text(default, setting)} | {accepts} | {setting.text} |\n"


def default_text(default: object, setting: Setting) -> str:
    """Return a default as the pages show it."""
    if default is MISSING:
        return "required"
    match default:
        case enum.Enum():
            return default.name.lower()
        case bool() | None | ResetPolicy():
            return str(default)
        case tuple() if default:
            return ", ".join(map(str, default))
        case int():
            return f"{default:,}{' ' + setting.unit if setting.unit else ''}"
    return str(default) or "empty"


def main() -> None:
    """Write the pages."""
    PAGE.write_text(page(), encoding="utf-8")
    CONSUMER_PAGE.write_text(consumer_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
