"""The orders of Java that decide which member gets a partition.

Java compares texts by UTF-16 units, and its assignors iterate over hash maps. Members of other
clients may lead the group, and a change of the leader must not move partitions; so kprod's
assignors use the same orders.

Thread-safety: pure functions.
Source: java.lang.String.hashCode and compareTo, java.util.HashMap (OpenJDK 21).
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from kprod.model import TopicPartition

T = TypeVar("T")

_TABLE_SIZE_MIN = 16
_LOAD_RATIO = (3, 4)  # a table of 16 places takes 12 entries
_WORD = 0xFFFF_FFFF


def text_order(text: str) -> bytes:
    """Return a sort key that orders texts as Java does.

    Args:
        text: Any text.

    Returns:
        The key.
    """
    return text.encode("utf-16-be", "surrogatepass")


def text_hash(text: str) -> int:
    """Return Java's hash of a text.

    Args:
        text: Any text.

    Returns:
        The hash as an unsigned number of 32 bits.
    """
    units = text_order(text)
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _WORD
    return value


def partition_hash(key: TopicPartition) -> int:
    """Return the hash of Kafka's TopicPartition.

    Args:
        key: Any partition.

    Returns:
        The hash as an unsigned number of 32 bits.
    """
    return (31 * (31 + key.partition) + text_hash(key.topic)) & _WORD


def hash_map_order(keys: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """Return keys in the order of a Java hash map that they were put into one by one.

    Args:
        keys: Distinct keys, in the order of insertion.
        hash_of: Java's hash of a key, unsigned.

    Returns:
        The keys.
    """
    given = list(keys)
    size = _TABLE_SIZE_MIN
    while len(given) * _LOAD_RATIO[1] > size * _LOAD_RATIO[0]:
        size *= 2

    def place_of(key: T) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(given, key=place_of)
