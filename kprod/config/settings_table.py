"""A class whose attributes are settings, each with its default and its row.

It is what `dataclasses` would make of the same lines. That module writes source for every class and
compiles it, and loads `inspect`: a sixth of the time that a producer takes to import.

Thread-safety: immutable.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform

from kprod.config.kinds import Kind
from kprod.config.setting import Group, Setting

MISSING = object()
"""The default of a setting that must be given."""


class Field(NamedTuple):
    """One attribute of a table.

    Attributes:
        default: Its value where none is given; `MISSING` if one must be.
        setting: The setting that an application may pass; None for an attribute that is not one.
    """

    default: Any
    setting: Setting | None


def row(
    kafka_name: str | None,
    kind: Kind,
    group: Group,
    text: str,
    *,
    unit: str = "",
    also: tuple[str, ...] = (),
) -> Setting:
    """Return a `Setting`, for the metadata of a field."""
    return Setting(kafka_name, kind, group, text, unit, also)


def field(*, default: Any = MISSING, metadata: Setting | None = None) -> Any:  # noqa: ANN401
    """Return a `Field`; of any type, since a type checker sees it assigned to a setting."""
    return Field(default, metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Table:  # noqa: PLW1641 - some values are lists of the application
    """The base of all tables; a subclass has the settings of its bases, too.

    Attributes:
        fields: Every setting by its name, a base's first.
    """

    fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls.fields = {**cls.fields, **own}

    def __init__(self, **values: object) -> None:
        missing = [
            name
            for name, entry in self.fields.items()
            if entry.default is MISSING and name not in values
        ]
        unknown = values.keys() - self.fields.keys()
        if missing or unknown:
            raise TypeError(f"{type(self).__name__} lacks {missing}, and has no {sorted(unknown)}")
        defaults = {name: entry.default for name, entry in self.fields.items()}
        vars(self).update(defaults | values)

    def changed(self, **values: object) -> Self:
        """Return a copy with other values.

        Args:
            values: Values by setting name.

        Raises:
            TypeError: There is no such setting.
        """
        return type(self)(**(vars(self) | values))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; its {name} stays as it is")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; its {name} stays as it is")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def rows(table: type[Table]) -> Iterator[tuple[str, Setting, Any]]:
    """Return each field's name, setting and default (`MISSING` for none)."""
    for name, entry in table.fields.items():
        if entry.setting is not None:
            yield name, entry.setting, entry.default
