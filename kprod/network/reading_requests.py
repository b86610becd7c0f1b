"""The two questions of a reader: where a partition begins and ends, and its records.

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
_NO_FETCH_SESSION = -1  # each request stands alone
_PARTITION_BYTES = 2_048  # the fields of one partition, and a view of its records
OFFSET_MAX = 2**63 - 1


def reading_terms(partition_count: int) -> dict[str, Any]:
    """What the response to either question may hold: a topic, and a response for each partition.

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
        body: A ListOffsets or a Fetch response.

    Raises:
        RemoteProtocolError: An end of a log is negative, or the last offset that there can be.
    """
    for topic in body.get("topics") or ():
        for answer in topic["partitions"]:
            if not answer["error_code"] and not 0 <= answer["offset"] < OFFSET_MAX:
                raise RemoteProtocolError(
                    f"a ListOffsets response gives partition {answer['partition_index']} the"
                    f" offset {answer['offset']}; an offset is 0 to {OFFSET_MAX - 1}"
                )


def list_offsets_body(
    topic: str, positions: Iterable[ReadingPosition], timestamp: int
) -> dict[str, Any]:
    """Ask for one end of some partitions.

    Args:
        topic: The topic's name.
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
    """Ask for the next records of some partitions; the first is served first.

    Args:
        topic: The topic's name.
        positions: Which partitions, and from where on.
        wait_ms: How long the broker may hold a request that finds nothing.
        bytes_max: Maximum size of the response; a first batch may be larger.
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
