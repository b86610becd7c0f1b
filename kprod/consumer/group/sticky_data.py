"""The bytes in which a member of the eager sticky assignor sends its last assignment.

Thread-safety: pure functions.
Source: Kafka StickyAssignor, its schemas V0 and V1 (clients 4.3.1).
"""

import struct
from collections.abc import Sequence

from kprod.consumer.group.protocol_data import NO_GENERATION, by_topic
from kprod.model import TopicPartition

_LENGTH = struct.Struct(">h")
_NUMBER = struct.Struct(">i")


def encode_claim(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode an assignment.

    Args:
        owned: The partitions.
        generation: Their generation.

    Returns:
        The bytes.
    """
    topics = by_topic(owned)
    pieces = [_NUMBER.pack(len(topics))]
    for each in topics:
        name, numbers = each["topic"].encode(), each["partitions"]
        pieces += [_LENGTH.pack(len(name)), name, _NUMBER.pack(len(numbers))]
        pieces += map(_NUMBER.pack, numbers)
    return b"".join((*pieces, _NUMBER.pack(generation)))


def decode_claim(encoded: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """Decode an assignment.

    Args:
        encoded: The bytes; None if a member has none.

    Returns:
        The partitions and their generation, −1 if it is missing; nothing for bytes that are no
        assignment, since a member's bytes must not stop the group.
    """
    if not encoded:
        return (), NO_GENERATION
    try:
        return _decode(encoded)
    except (struct.error, UnicodeDecodeError, IndexError):
        return (), NO_GENERATION


def _decode(encoded: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    at = 0

    def number(form: struct.Struct) -> int:
        nonlocal at
        (value,) = form.unpack_from(encoded, at)
        at += form.size
        return int(value)

    found = []
    for _ in range(number(_NUMBER)):
        size = number(_LENGTH)
        if size < 0 or at + size > len(encoded):
            raise IndexError
        name = encoded[at : at + size].decode()
        at += size
        found += [TopicPartition(name, number(_NUMBER)) for _ in range(number(_NUMBER))]
    generation = number(_NUMBER) if at + _NUMBER.size <= len(encoded) else NO_GENERATION
    return tuple(dict.fromkeys(found)), generation
