"""Texts that name partitions.

Thread-safety: functions of their arguments.
"""

from kprod.errors import CorruptRecord, NoOffset
from kprod.model import TopicPartition
from kprod.wording import plural

_SHOWN_MAX = 10  # partitions in one text


def named(keys: list[TopicPartition]) -> str:
    """Name partitions.

    Args:
        keys: Any number.

    Returns:
        Such as "partitions orders-0, orders-1"; at most ten by name.
    """
    shown = ", ".join(f"{key.topic}-{key.partition}" for key in keys[:_SHOWN_MAX])
    more = len(keys) - _SHOWN_MAX
    return f"{plural(len(keys), 'partition', 'partitions')} {shown}" + (
        f" and {more} more" if more > 0 else ""
    )


def no_offset(keys: list[TopicPartition], reason: str = "") -> NoOffset:
    """Make the error of partitions that have no position.

    Args:
        keys: At least one.
        reason: More about why, with a space before it.

    Returns:
        The error.
    """
    error = NoOffset(
        f"no position for {named(keys)}{reason}, and auto_offset_reset=none; seek to an offset"
    )
    error.partitions = tuple((key.topic, key.partition) for key in keys)
    return error


def no_whole_batch(key: TopicPartition, offset: int, count: int) -> CorruptRecord:
    """Make the error of responses that have nothing to read.

    Args:
        key: The partition.
        offset: That was asked for.
        count: How many responses in a row.

    Returns:
        The error.
    """
    error = CorruptRecord(
        f"topic {key.topic!r}, partition {key.partition}, offset {offset}: {count} responses in a"
        " row have no whole batch at or behind it"
    )
    error.topic, error.partition = key
    error.offset = offset
    return error
