"""Write `kprod/broker/embedded_settings.py`: an embedded cluster's settings, for type checkers.

Run by `make docs`; a test compares the module with what this one returns.
"""

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

from kprod.broker.config import EmbeddedConfig

MODULE = Path(__file__).parent.parent / "kprod" / "broker" / "embedded_settings.py"

_HEAD = '''\
"""The settings of an embedded cluster as keyword arguments, for type checkers and editors.

Generated from `EmbeddedConfig` by `make docs`; do not edit. A program never reads it:
`EmbeddedConfig` checks settings.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict


class EmbeddedSettings(TypedDict, total=False):
    """Every setting of `EmbeddedConfig`, none of them required."""
'''

_KINDS = {
    "cleanup_policy": 'Literal["delete", "compact", "compact,delete", "delete,compact", ""]',
    "message_timestamp_type": 'Literal["CreateTime", "LogAppendTime"]',
    "racks": "Sequence[str]",
}
_WIDTH = 96  # within the indentation


def module() -> str:
    """Return the whole module."""
    texts = attribute_texts(inspect.getdoc(EmbeddedConfig) or "")
    parts = [_HEAD]
    for field in dataclasses.fields(EmbeddedConfig):
        kind = _KINDS.get(field.name) or inspect.formatannotation(field.type)
        text = f'"""{texts[field.name]}"""'
        lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        parts.append(f"\n    {field.name}: {kind}\n" + "".join(f"    {it}\n" for it in lines))
    return "".join(parts)


def attribute_texts(docstring: str) -> dict[str, str]:
    """Read the section `Attributes:` of a docstring.

    Args:
        docstring: Without the indentation of its code.

    Returns:
        Each attribute's text on one line, by its name.
    """
    section = docstring.partition("\nAttributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"\n(?= {4}\w)", section)
    pairs = (entry.strip().split(": ", 1) for entry in entries if entry.strip())
    return {name: " ".join(text.split()).replace("−", "-") for name, text in pairs}


def main() -> None:
    """Write the module."""
    MODULE.write_text(module(), encoding="utf-8")


if __name__ == "__main__":
    main()
