"""The shape of the generated tables: what one message of the protocol looks like in every version.

A `Message` covers all versions that Kafka defines, the withdrawn ones included.
Facts only: the codec decides what to do with them.

Thread-safety: immutable.
Source: Kafka's message definitions (kafka-clients 4.3.1) and KIP-482 for flexible versions.
"""

from typing import NamedTuple, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview


class Field(NamedTuple):
    """One field of a message or of a structure inside it.

    Attributes:
        name: Kafka's name in snake case.
        kind: `bool`, `int8` to `int64`, `uint16`, `float64`, `string`, `bytes`, `records`, `uuid`
            or `struct`; an array has `[]` in front.
        versions: First and last version that has the field.
        nullable: First and last version in which the field may be null.
        tagged: First and last version in which it travels as a tagged field.
        tag: The field's tag; −1 for a field that is never tagged.
        default: The value if absent; 0 means the type's zero value, None means null.
        ignorable: A value is silently dropped in versions that lack the field.
        fixed_length: Whether its length prefix has two bytes in flexible versions, too.
        fields: The structure's own fields.
    """

    name: str
    kind: str
    versions: tuple[int, int]
    nullable: tuple[int, int] | None = None
    tagged: tuple[int, int] | None = None
    tag: int = -1
    default: int | str | None = 0
    ignorable: bool = False
    fixed_length: bool = False
    fields: tuple["Field", ...] = ()


class Message(NamedTuple):
    """One request, response, header or embedded structure.

    Attributes:
        name: Kafka's name, such as `MetadataResponse`.
        api_key: The request type's number; −1 for a structure that is neither.
        versions: First and last version known.
        flexible: First version with compact lengths and tagged fields; None if there is none.
        fields: All fields of all versions, in wire order.
    """

    name: str
    api_key: int
    versions: tuple[int, int]
    flexible: int | None
    fields: tuple[Field, ...]


def holds(versions: tuple[int, int] | None, version: int) -> bool:
    """Whether a version is in a range; None is the empty range."""
    return versions is not None and versions[0] <= version <= versions[1]
