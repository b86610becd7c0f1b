"""Checks the offsets that an application commits or stores.

Thread-safety: pure functions.
"""

from collections.abc import Mapping
from typing import Any

from kprod.consumer.assignment import as_partition
from kprod.consumer.position import OFFSET_MAX
from kprod.model import OffsetAndMetadata, TopicPartition

_EPOCH_MAX = 2**31 - 1
_METADATA_BYTES_MAX = 2**15 - 1  # the protocol's longest text


def offsets_of(given: Mapping[Any, object]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check offsets to commit.

    Args:
        given: Offsets by partition, as numbers or `OffsetAndMetadata`.

    Returns:
        The offsets.

    Raises:
        TypeError: An argument has another type.
        ValueError: A topic name is invalid, or a number or a text is out of bounds.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            "offsets are a mapping of TopicPartition to offset or OffsetAndMetadata, not"
            f" {type(given).__name__}"
        )
    return {as_partition(key): _checked(it) for key, it in given.items()}


def offset_after(record: Any) -> dict[TopicPartition, OffsetAndMetadata]:  # noqa: ANN401 - any class
    """Return the offset after a record.

    Args:
        record: An object with `topic`, `partition`, `offset` and `leader_epoch`.

    Returns:
        The next offset of its partition.

    Raises:
        TypeError: It is no record.
    """
    try:
        key = TopicPartition(record.topic, record.partition)
        return {key: OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)}
    except AttributeError:
        raise TypeError(
            "store_offsets takes a record, or a mapping of TopicPartition to offset or"
            f" OffsetAndMetadata, not {type(record).__name__}"
        ) from None


def _checked(given: object) -> OffsetAndMetadata:
    """Check one offset of the application."""
    it = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)  # type: ignore[arg-type]  # checked below
    if not isinstance(it.offset, int) or isinstance(it.offset, bool):
        raise TypeError(f"an offset is a whole number, not {type(it.offset).__name__}")
    if not 0 <= it.offset <= OFFSET_MAX:
        raise ValueError(f"an offset is from 0 to {OFFSET_MAX}, not {it.offset}")
    if not isinstance(it.metadata, str):
        raise TypeError(f"an offset's metadata is a text, not {type(it.metadata).__name__}")
    if len(it.metadata.encode()) > _METADATA_BYTES_MAX:
        raise ValueError(f"an offset's metadata has at most {_METADATA_BYTES_MAX} bytes")
    if not isinstance(it.leader_epoch, int) or not -1 <= it.leader_epoch <= _EPOCH_MAX:
        raise ValueError(f"a leader epoch is from -1 to {_EPOCH_MAX}, not {it.leader_epoch!r:.40}")
    return it
