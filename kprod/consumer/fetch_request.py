# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The fields of a Fetch request that are the same for all partitions; leaders in its response.

Thread-safety: pure functions.
Source: FetchRequest.json and FetchResponse.json (kafka-clients 4.3.1); KIP-74, KIP-951.
"""

import functools
from collections.abc import Mapping
from typing import Any

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.snapshot import LeaderHint
from kprod.config import FetchSettings
from kprod.consumer.fetch_session import NAMES_VERSIONS
from kprod.model import Node
from kprod.network.client_request import ANSWER_BYTES, ClientRequest
from kprod.protocol.api import ApiKey

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


def closing_fetch(
    settings: FetchSettings, node_id: int, session_fields: Mapping[str, Any]
) -> ClientRequest:
    """Return the request that closes a session; its response does not matter.

    Args:
        settings: As for `fetch_fields`.
        node_id: The session's broker.
        session_fields: The fields of `FetchSession.closing_request`.

    Returns:
        The request.
    """
    return ClientRequest(
        node_id=node_id,
        api_key=ApiKey.FETCH,
        versions=NAMES_VERSIONS,
        body={**fetch_fields(settings, 0), "max_wait_ms": 0, **session_fields},
        on_complete=_ignore,
    )


@functools.lru_cache(maxsize=16)  # consecutive requests have the same number of partitions
def fetch_bounds(partition_count: int, *, reads_committed: bool) -> Bounds:
    """Return the bounds of a response, its records excluded.

    Args:
        partition_count: Number of partitions in the request.
        reads_committed: Whether aborted transactions are needed.

    Returns:
        The bounds for decoding the response.
    """
    return Bounds(
        memory_bytes=ANSWER_BYTES
        + _PARTITION_BYTES * partition_count
        + (_ABORTED_BYTES if reads_committed else 0),
        totals={"responses": partition_count, "partitions": partition_count},
        unread=set() if reads_committed else {"aborted_transactions"},
    )


def aborted_transactions(answer: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the aborted transactions in a partition's part of a response.

    Args:
        answer: A partition of a Fetch response.

    Returns:
        Producer id and first offset of each.
    """
    transactions = answer["aborted_transactions"] or ()
    return tuple([(it["producer_id"], it["first_offset"]) for it in transactions])


def leader_hints(body: Mapping[str, Any], names: Mapping[int, str] | None) -> list[LeaderHint]:
    """Return the leaders that a response names for partitions that it rejects.

    Args:
        body: A Fetch response.
        names: Topics' names by the number of their id; None if the response has names.

    Returns:
        The leaders; those of unknown topics are left out.
    """
    hints: list[LeaderHint] = []
    for topic in body["responses"]:
        for answer in topic["partitions"]:
            if not answer["error_code"]:
                continue
            leader = answer.get("current_leader")
            name = topic["topic"] if names is None else names.get(topic["topic_id"].int)
            if name and leader and leader["leader_id"] >= 0:
                index, epoch = answer["partition_index"], leader["leader_epoch"]
                hints.append(LeaderHint(name, index, leader["leader_id"], epoch))
    return hints


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


def _ignore(_: object) -> None:
    """Ignore the response to closing a session."""
