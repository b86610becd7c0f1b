"""Error texts that name partitions.

Thread-safety: pure functions.
"""

from kprod.errors import CorruptRecord, NoOffset
from kprod.model import TopicPartition
from kprod.wording import plural

_SHOWN_MAX = 10  # number of partitions that a text names


def named(keys: list[TopicPartition]) -> str:
    """Name some partitions in a text.

    Args:
        keys: Any number of partitions.

    Returns:
        A text such as "partitions orders-0, orders-1"; at most ten are named.
    """
    shown = ", ".join(f"{key.topic}-{key.partition}" for key in keys[:_SHOWN_MAX])
    more = len(keys) - _SHOWN_MAX
    return f"{plural(len(keys), 'partition', 'partitions')} {shown}" + (
        f" and {more} more" if more > 0 else ""
    )


def no_offset(keys: list[TopicPartition], reason: str = "") -> NoOffset:
    """Create the error for partitions without a position.

    Args:
        keys: At least one partition.
        reason: A further explanation, with a leading space.

    Returns:
        The error.
    """
    error = NoOffset(
        f"no position for {named(keys)}{reason}, and auto_offset_reset=none; seek to an offset"
    )
    error.partitions = tuple((key.topic, key.partition) for key in keys)
    return error


def no_whole_batch(key: TopicPartition, offset: int, count: int) -> CorruptRecord:
    """Create the error for responses that contain no whole batch.

    Args:
        key: The partition.
        offset: The requested offset.
        count: Number of consecutive responses.

    Returns:
        The error.
    """
    error = CorruptRecord(
        f"topic {key.topic!r}, partition {key.partition}, offset {offset}: {count} responses in a"
        " row have no whole batch at or after it"
    )
    error.topic, error.partition = key
    error.offset = offset
    return error
