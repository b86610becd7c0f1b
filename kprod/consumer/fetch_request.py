"""The fields of a Fetch request that are the same for all partitions; leaders in its response.

Thread-safety: pure functions.
Source: FetchRequest.json and FetchResponse.json (kafka-clients 4.3.1); KIP-74, KIP-951.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.snapshot import LeaderHint
from kprod.config import FetchSettings
from kprod.model import Node
from kprod.network.client_request import ANSWER_BYTES

_NO_REPLICA = -1  # marks a consumer, not a follower
_PARTITION_BYTES = 2_048  # the fields of one partition, and a view of its records
_ABORTED_BYTES = 16 << 20  # the aborted transactions of a response: about 50,000


def fetch_fields(settings: FetchSettings, bytes_max: int) -> dict[str, Any]:
    """Return the fields of a request that do not depend on the session.

    Args:
        settings: Wait times and isolation level.
        bytes_max: Maximum size of the response; a first batch may be larger.

    Returns:
        Fields of a Fetch request of versions 4 to 17.
    """
    return {
        "replica_id": _NO_REPLICA,
        "max_wait_ms": settings.fetch_max_wait_ms,
        "min_bytes": settings.fetch_min_bytes,
        "max_bytes": bytes_max,
        "isolation_level": int(settings.reads_committed),
        "rack_id": settings.client_rack,
    }


def fetch_bounds(settings: FetchSettings, partition_count: int) -> Bounds:
    """Return the bounds of a response, its records excluded.

    Args:
        settings: Settings with the isolation level.
        partition_count: Number of partitions in the request.

    Returns:
        The bounds for decoding the response.
    """
    commits = settings.reads_committed
    return Bounds(
        memory_bytes=ANSWER_BYTES
        + _PARTITION_BYTES * partition_count
        + (_ABORTED_BYTES if commits else 0),
        totals={"responses": partition_count, "partitions": partition_count},
        unread=set() if commits else {"aborted_transactions"},
    )


def leader_hints(body: Mapping[str, Any]) -> Iterator[LeaderHint]:
    """Yield the leaders that a response names for partitions that it rejects.

    Args:
        body: A Fetch response.

    Yields:
        Leaders of topics that the response identifies by name.
    """
    for topic in body["responses"]:
        for answer in topic["partitions"]:
            leader = answer.get("current_leader")
            if leader and leader["leader_id"] >= 0 and topic["topic"]:
                yield LeaderHint(
                    topic["topic"],
                    answer["partition_index"],
                    leader["leader_id"],
                    leader["leader_epoch"],
                )


def sound_nodes(body: Mapping[str, Any]) -> list[Node]:
    """Return the broker addresses in a response.

    Args:
        body: A Fetch response.

    Returns:
        The nodes with valid addresses.
    """
    nodes = [
        Node(it["node_id"], it["host"], it["port"], it.get("rack"))
        for it in body.get("node_endpoints") or ()
    ]
    return [node for node in nodes if node.is_sound]
