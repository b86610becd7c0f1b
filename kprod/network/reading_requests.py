"""Builds the two requests of a topic reader: ListOffsets and Fetch.

Thread-safety: pure functions.
Source: ListOffsetsRequest.json and FetchRequest.json (kafka-clients 4.3.1).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.errors import RemoteProtocolError
from kprod.network.client_request import ANSWER_BYTES
from kprod.network.reading_position import ReadingPosition

_NO_REPLICA = -1  # marks a consumer, not a follower
_NO_FETCH_SESSION = -1  # no fetch session is used
_PARTITION_BYTES = 2_048  # the fields of one partition, and a view of its records
OFFSET_MAX = 2**63 - 1


def reading_terms(partition_count: int) -> dict[str, Any]:
    """Return the bounds of a response: one topic, and one entry for each partition.

    Args:
        partition_count: Number of partitions in the request.

    Returns:
        `bounds` and `check` of a `ClientRequest`.
    """
    bounds = Bounds(
        memory_bytes=ANSWER_BYTES + _PARTITION_BYTES * partition_count,
        totals={"responses": 1, "topics": 1, "partitions": partition_count},
        unread={"aborted_transactions", "old_style_offsets", "node_endpoints"},
    )
    return {"bounds": bounds, "check": check_offsets}


def check_offsets(body: Mapping[str, Any]) -> None:
    """Reject impossible offsets.

    Args:
        body: A ListOffsets response about the starts or the ends of logs.

    Raises:
        RemoteProtocolError: An offset is negative or the largest possible one.
    """
    for topic in body.get("topics") or ():
        for answer in topic["partitions"]:
            if not answer["error_code"] and not 0 <= answer["offset"] < OFFSET_MAX:
                raise RemoteProtocolError(
                    f"a ListOffsets response gives partition {answer['partition_index']} the"
                    f" offset {answer['offset']}; a log starts and ends at 0 to {OFFSET_MAX - 1}"
                )


def list_offsets_body(
    topic: str, positions: Iterable[ReadingPosition], timestamp: int
) -> dict[str, Any]:
    """Build a ListOffsets request for some partitions.

    Args:
        topic: The topic's name.
        positions: The partitions.
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
    """Build a Fetch request for some partitions; the broker serves the first one first.

    Args:
        topic: The topic's name.
        positions: The partitions, with their offsets.
        wait_ms: Maximum wait of the broker if there are no records.
        bytes_max: Maximum size of the response; a first batch may be larger.
        partition_bytes_max: Maximum size for each partition.

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
