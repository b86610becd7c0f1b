"""Make a topic on a cluster: one CreateTopics request to its controller.

Thread-safety: one thread.
Source: CreateTopicsRequest (Kafka 4.3.1); KIP-464 for −1 as the replication factor.
"""

from collections.abc import Mapping, Sequence

from kprod.cluster.metadata import Metadata
from kprod.config import ClientConfig
from kprod.config.address import bootstrap_addresses
from kprod.errors import KprodTimeout
from kprod.model import Node
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.standalone_client import StandaloneClient, open_client
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, error_for

_TIMEOUT_MS = 30_000
_VERSION_MIN = 4  # the first in which −1 stands for the broker's own replication factor
_VERSION_MAX = 7


def create_topic(
    cluster: str | Sequence[str] | ClientConfig,
    topic: str,
    partition_count: int,
    *,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Make a topic with the cluster's own replication factor.

    Args:
        cluster: `host:port,host:port`, or how to connect.
        topic: A name that is not taken.
        partition_count: At least 1.
        settings: The topic's own, such as `cleanup.policy`; others are the cluster's.

    Raises:
        ConfigError: The addresses are malformed.
        KprodTimeout: No broker could be reached, or none answered in 30 s; the text says why.
        KprodError: The cluster refused.
    """
    config = (
        cluster
        if isinstance(cluster, ClientConfig)
        else ClientConfig(bootstrap_servers=bootstrap_addresses(cluster), client_id="kprod")
    )
    opened = open_client(config)
    try:
        _create(opened, _body(topic, partition_count, settings or {}))
    finally:
        opened.close()


def _body(topic: str, partition_count: int, settings: Mapping[str, str]) -> dict[str, object]:
    wish = {
        "name": topic,
        "num_partitions": partition_count,
        "replication_factor": -1,
        "configs": [{"name": name, "value": value} for name, value in settings.items()],
    }
    return {"topics": [wish], "timeout_ms": _TIMEOUT_MS}


def _create(opened: StandaloneClient, body: dict[str, object]) -> None:
    client, metadata, clock = opened
    outcomes: list[Outcome] = []
    deadline_ms = clock.now_ms() + _TIMEOUT_MS
    is_sent = False
    while not outcomes:
        now_ms = clock.now_ms()
        if now_ms >= deadline_ms:
            raise KprodTimeout(f"no topic was created in {_TIMEOUT_MS} ms: {metadata.trouble()}")
        node = _controller(metadata)
        if node is not None and not is_sent and client.ready(node, now_ms):
            is_sent = True
            request = ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.CREATE_TOPICS,
                versions=(_VERSION_MIN, _VERSION_MAX),
                body=body,
                on_complete=outcomes.append,
            )
            client.send(request, now_ms)
        client.poll(min(deadline_ms - now_ms, 1_000), now_ms)
    if outcomes[0].error is not None:
        raise outcomes[0].error
    for entry in (outcomes[0].body or {}).get("topics", ()):
        if entry["error_code"] != ErrorCode.NONE:
            raise error_for(entry["error_code"], entry["error_message"] or entry["name"])


def _controller(metadata: Metadata) -> Node | None:
    snapshot = metadata.snapshot
    return None if snapshot.is_bootstrap else snapshot.nodes.get(snapshot.controller_id)
