"""Write the page of the consumer settings of other clients, and what kprod makes of each.

Names and defaults are in `consumers_of_peers.json`, and a test asks the clients themselves; run by
`make docs`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kprod.config.consumer_config import ConsumerConfig
from kprod.config.foreign_consumer import consumer_advice_for, renamed_of_consumer
from kprod.config.settings_table import rows
from tools.generate_configuration import default_text

PAGE = Path(__file__).parent.parent / "docs" / "migrating" / "consumer_settings.md"
PEERS: Mapping[str, Mapping[str, str]] = json.loads(
    (Path(__file__).parent / "consumers_of_peers.json").read_text("utf-8")
)
"""Default of each setting, empty for none, by client."""

_HEAD = """# Consumer settings of other clients

Generated from the clients' own lists of settings and kprod's table by `make docs`; do not edit.

This page lists the settings of the consumers of confluent-kafka 2.16, kafka-python 3.0, aiokafka
0.14 and Java (clients 4.3.1), and their names in kprod. Kafka's names are accepted dotted and with
underscores. Another client's own name is an error with the text of the table.
[Security](../security.md) has the settings that begin with `ssl`, `sasl` and `security`, and
[the configuration](../consumer_configuration.md) all settings with their bounds.
"""
_OWN = {
    spelling.lower(): (name, setting, default)
    for name, setting, default in rows(ConsumerConfig)
    for spelling in setting.spellings(name)
}
_OWN_WORD = re.compile(
    rf"\b({'|'.join(sorted((it for it in _OWN if '_' in it), key=len, reverse=True))})\b"
)


def own_name(written: str) -> str | None:
    """Return kprod's name for the same setting.

    Args:
        written: The other client's name.

    Returns:
        The name; None if there is no equal.
    """
    name = written.lower()
    if name in _OWN:
        return _OWN[name][0]
    return renamed_of_consumer().get(name.replace(".", "_"))


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for client, defaults in PEERS.items():
        head = "| setting | default | kprod | default |\n|---|---|---|---|\n"
        parts.append(f"\n## {client}\n\n{head}")
        parts += _equal_rows(defaults)
        parts.append("\n| setting | in kprod |\n|---|---|\n")
        parts += _other_rows(defaults)
    return "".join(parts)


def _equal_rows(defaults: Mapping[str, str]) -> Iterator[str]:
    for written, default in defaults.items():
        own = own_name(written)
        if own is not None:
            _, setting, own_default = _OWN[own]
            both = ", ".join(f"`{it}`" for it in dict.fromkeys((own, setting.kafka_name or own)))
            theirs = f"`{default}`" if default else ""
            yield f"| `{written}` | {theirs} | {both} | {default_text(own_default, setting)} |\n"


def _other_rows(defaults: Mapping[str, str]) -> Iterator[str]:
    """Names with the same advice share a row."""
    answers: dict[str, list[str]] = {}
    for written in defaults:
        if own_name(written) is None:
            answer = consumer_advice_for(written) or ""
            answers.setdefault(answer, []).append(f"`{written}`")
    for answer, names in answers.items():
        marked = _OWN_WORD.sub(r"`\1`", answer)
        yield f"| {', '.join(names)} | {marked} |\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
