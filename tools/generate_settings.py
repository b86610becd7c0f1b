"""Write the settings' names and types, for type checkers: a module for each kind of client.

Run by `make docs`; a test compares the modules with what this one returns.
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path

from kprod.config import ProducerConfig, SecurityConfig
from kprod.config.consumer_config import ConsumerConfig
from kprod.config.kinds import Choice, Function, Kind
from kprod.config.security_kinds import UpperChoice
from kprod.config.setting import Setting
from kprod.config.settings_table import rows
from kprod.model import Codec

_CONFIG = Path(__file__).parent.parent / "kprod" / "config"
MODULE = _CONFIG / "producer_settings.py"
CONSUMER_MODULE = _CONFIG / "consumer_settings.py"

_HEAD = '''\
"""The settings of a producer as keyword arguments, for type checkers and editors.

Generated from the table in `kprod/config` by `make docs`; do not edit. A program never reads it:
`ProducerConfig.parse` checks settings, and takes numbers and flags as texts, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kprod.interfaces import Interceptor, Partitioner, TokenProvider
from kprod.model import Acks, Codec
from kprod.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext

PartitionerName = Literal[
{names}]


class ProducerSettings(TypedDict, total=False):
    """Every setting by its Python names; `docs/configuration.md` has them with their bounds."""
'''

_CONSUMER_HEAD = '''\
"""The settings of a consumer as keyword arguments, for type checkers and editors.

Generated from the table in `kprod/config` by `make docs`; do not edit. A program never reads it:
`ConsumerConfig.parse` checks settings, and takes numbers and flags as texts, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kprod.interfaces import ConsumerInterceptor, PartitionAssignor, TokenProvider
from kprod.secret import Secret

if TYPE_CHECKING:
    from ssl import SSLContext


class ConsumerSettings(TypedDict, total=False):
    """Every setting by its Python names; `docs/consumer_configuration.md` has their bounds."""
'''

_CODECS = ", ".join(f'"{codec.name.lower()}"' for codec in Codec)
_BY_KIND = {
    "Whole": "int",
    "Level": "int",
    "Flag": "bool",
    "AcksKind": 'Literal["all", -1, 0, 1] | Acks',
    "CodecKind": f"Literal[{_CODECS}] | Codec | None",
    "ClientId": "str",
    "AddressList": "str | Sequence[str]",
    "InterceptorList": "Sequence[Interceptor]",
    "ConsumerInterceptorList": "Sequence[ConsumerInterceptor]",
    "ResetPolicyKind": "str",
    "GroupName": "str | None",
    "AssignorList": "str | Sequence[str | PartitionAssignor]",
    "SecretText": "str | Secret",
    "PlainText": "str",
    "HostnameCheck": 'bool | Literal["https", "none", ""]',
    "TlsVersionList": "str | Sequence[str]",
    "TlsContextObject": '"SSLContext | None"',
    "PasswordKind": "str | Secret | Callable[[], str | Secret]",
    "TokenProviderObject": "TokenProvider | Callable[..., Any] | None",
    "HttpsUrl": "str",
    "Extensions": "str | Mapping[str, str]",
}
_WIDTH = 96  # within the indentation


def module() -> str:
    """Return the whole module of a producer's settings."""
    table = [*rows(ProducerConfig), *rows(SecurityConfig)]
    kinds = (setting.kind for _, setting, _ in table)
    names = next(kind.names for kind in kinds if isinstance(kind, Function) and kind.names)
    head = _HEAD.format(names="".join(f'    "{name}",\n' for name in names))
    return head + _fields(table)


def consumer_module() -> str:
    """Return the whole module of a consumer's settings."""
    return _CONSUMER_HEAD + _fields([*rows(ConsumerConfig), *rows(SecurityConfig)])


def _fields(table: Iterable[tuple[str, Setting, object]]) -> str:
    return "".join(
        f"\n    {spelling}: {_annotation(setting.kind)}\n{_docstring(setting)}"
        for name, setting, _ in table
        for spelling in setting.spellings(name)
        if spelling.isidentifier()
    )


def _annotation(kind: Kind) -> str:
    match kind:
        case Choice() | UpperChoice():
            return f"Literal[{', '.join(map(_quoted, kind.choices))}]"
        case Function():
            face = "PartitionerName | Partitioner" if kind.names else "Callable[..., Any]"
            return f"{face} | None"
    return _BY_KIND[type(kind).__name__]


def _quoted(text: str) -> str:
    return f'"{text}"'


def _docstring(setting: Setting) -> str:
    unit = f" In {setting.unit}." if setting.unit else ""
    text = f'"""{setting.text.replace("−", "-")}{unit}"""'
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"    {line}\n" for line in lines)


def main() -> None:
    """Write the modules."""
    MODULE.write_text(module(), encoding="utf-8")
    CONSUMER_MODULE.write_text(consumer_module(), encoding="utf-8")


if __name__ == "__main__":
    main()
