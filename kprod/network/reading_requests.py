"""The two questions of a reader: where does a partition begin and end, and what is in it.

Thread-safety: functions of their arguments.
Source: ListOffsetsRequest.json and FetchRequest.json (kafka-clients 4.3.1).
"""

from collections.abc import Iterable
from typing import Any

from kprod.network.reading_position import ReadingPosition

_NO_REPLICA = -1  # an ordinary client asks, not a follower
_NO_FETCH_SESSION = -1  # each request stands alone


def list_offsets_body(
    topic: str, positions: Iterable[ReadingPosition], timestamp: int
) -> dict[str, Any]:
    """Ask for one end of some partitions.

    Args:
        topic: Its name.
        positions: Which partitions.
        timestamp: `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`.

    Returns:
        A ListOffsets request body of version 1 or higher.
    """
    partitions = [
        {"partition_index": position.partition, "timestamp": timestamp} for position in positions
    ]
    return {"replica_id": _NO_REPLICA, "topics": [{"name": topic, "partitions": partitions}]}


def fetch_body(
    topic: str,
    positions: Iterable[ReadingPosition],
    *,
    wait_ms: int,
    bytes_max: int,
    partition_bytes_max: int,
) -> dict[str, Any]:
    """Ask for what comes next in some partitions; the first is served first.

    Args:
        topic: Its name.
        positions: Which partitions, and from where on.
        wait_ms: How long the broker may hold a request that finds nothing.
        bytes_max: Of the response; a first batch may be larger.
        partition_bytes_max: Of each partition in it.

    Returns:
        A Fetch request body of versions 4 to 12.
    """
    partitions = [
        {
            "partition": position.partition,
            "fetch_offset": position.next_offset,
            "partition_max_bytes": partition_bytes_max,
        }
        for position in positions
    ]
    return {
        "replica_id": _NO_REPLICA,
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "session_epoch": _NO_FETCH_SESSION,
        "topics": [{"topic": topic, "partitions": partitions}],
    }
