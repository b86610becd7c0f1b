"""The parts of a Fetch request that do not depend on its partitions, and leaders in its response.

Thread-safety: functions of their arguments.
Source: FetchRequest.json and FetchResponse.json (kafka-clients 4.3.1); KIP-74, KIP-951.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.snapshot import LeaderHint
from kprod.config import FetchSettings
from kprod.model import Node
from kprod.network.client_request import ANSWER_BYTES

_NO_REPLICA = -1  # an ordinary client asks, not a follower
_PARTITION_BYTES = 2_048  # the fields of one partition, and a view of its records
_ABORTED_BYTES = 16 << 20  # the aborted transactions of a response, some 50,000


def fetch_fields(settings: FetchSettings, bytes_max: int) -> dict[str, Any]:
    """Make the fields of a request that are no session's.

    Args:
        settings: Times and isolation level.
        bytes_max: Of the response; a first batch may be larger.

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
    """Bound what a response may hold besides its records.

    Args:
        settings: Whether transactions matter.
        partition_count: How many partitions are asked about.

    Returns:
        For the request.
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
    """Find the leaders that a response names for partitions that it refuses.

    Args:
        body: A Fetch response.

    Yields:
        Of topics that go by name.
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
    """Read the addresses that come with leaders.

    Args:
        body: A Fetch response.

    Returns:
        Those that can be connected to.
    """
    nodes = [
        Node(it["node_id"], it["host"], it["port"], it.get("rack"))
        for it in body.get("node_endpoints") or ()
    ]
    return [node for node in nodes if node.is_sound]
