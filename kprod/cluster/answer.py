"""A decoded Metadata response, checked and turned into snapshot values.

The body is a peer's word: indexes may repeat, leave holes or be absurd, names may be missing. What
cannot be meant is refused here, once, so that a snapshot never holds it.

Thread-safety: functions of their arguments.
Source: MetadataResponse.json (kafka-clients 4.3.1).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kprod.cluster.snapshot import NO_EPOCH, NO_LEADER, TopicSnapshot
from kprod.errors import BrokerError, RemoteProtocolError
from kprod.model import PORT_MAX, Node
from kprod.protocol.error_table import ErrorCode, error_for

PARTITIONS_PER_TOPIC_MAX = 1_000_000  # Kafka clusters end well below; an index above is hostile
REASON_LENGTH_MAX = 256  # how much of a peer's text an error repeats

Replicas = tuple[int, ...]
_MISSING_PARTITION: Mapping[str, Any] = MappingProxyType(
    {"leader_id": NO_LEADER, "leader_epoch": NO_EPOCH, "replica_nodes": (), "isr_nodes": ()}
)


class MetadataAnswer(NamedTuple):
    """What one response said.

    Attributes:
        nodes: Every broker, by id.
        topics: Topics that exist and have partitions.
        errors: Why a topic is not in `topics`.
        cluster_id: None where the broker is too old to say.
        controller_id: −1 when unknown.
    """

    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicSnapshot]
    errors: Mapping[str, BrokerError]
    cluster_id: str | None
    controller_id: int


def read_answer(body: Mapping[str, Any]) -> MetadataAnswer:
    """Read a Metadata response of any version.

    Args:
        body: As the codec decoded it.

    Returns:
        Its content; a topic without partitions counts as one that is not available yet.

    Raises:
        BrokerError: The response as a whole is an error.
        RemoteProtocolError: No broker in it, a port or a partition index out of bounds, or a
            partition named twice.
    """
    if code := body.get("error_code", 0):
        refusal = error_for(code, "the Metadata request was refused")
        raise refusal
    nodes = _read_nodes(body["brokers"])
    topics: dict[str, TopicSnapshot] = {}
    errors: dict[str, BrokerError] = {}
    shared: dict[Replicas, Replicas] = {}
    for entry in body["topics"]:
        name = entry["name"]
        if name is None:
            continue
        if code := entry["error_code"]:
            errors[name] = error_for(code, f"topic {_shown(name)}")
        elif not entry["partitions"]:
            errors[name] = error_for(
                ErrorCode.LEADER_NOT_AVAILABLE, f"topic {_shown(name)} has no partitions yet"
            )
        else:
            topics[name] = _read_topic(entry, shared)
    return MetadataAnswer(
        nodes=nodes,
        topics=topics,
        errors=errors,
        cluster_id=body.get("cluster_id"),
        controller_id=body.get("controller_id", NO_LEADER),
    )


def _read_nodes(brokers: Sequence[Mapping[str, Any]]) -> Mapping[int, Node]:
    if not brokers:
        raise RemoteProtocolError("a Metadata response names no broker")
    nodes: dict[int, Node] = {}
    for broker in brokers:
        node = Node(broker["node_id"], broker["host"], broker["port"], broker.get("rack"))
        if not node.is_sound:
            raise RemoteProtocolError(
                f"a Metadata response names broker {node.node_id} at {_shown(node.host)} port"
                f" {node.port}; an id is at least 0 and a port from 1 to {PORT_MAX}"
            )
        nodes[node.node_id] = node
    return MappingProxyType(nodes)


def _read_topic(entry: Mapping[str, Any], shared: dict[Replicas, Replicas]) -> TopicSnapshot:
    partitions: Sequence[Mapping[str, Any]] = entry["partitions"]
    if any(item["partition_index"] != index for index, item in enumerate(partitions)):
        partitions = _in_order(entry["name"], partitions)
    return TopicSnapshot(
        name=entry["name"],
        topic_id=entry["topic_id"],
        is_internal=entry["is_internal"],
        leader_ids=tuple([item["leader_id"] for item in partitions]),
        leader_epochs=tuple([item["leader_epoch"] for item in partitions]),
        replicas=_share(partitions, "replica_nodes", shared),
        in_sync_replicas=_share(partitions, "isr_nodes", shared),
    )


def _in_order(topic: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put each partition at its index; a hole becomes a partition without leader."""
    count = 1 + max(item["partition_index"] for item in partitions)
    if count > PARTITIONS_PER_TOPIC_MAX:
        raise RemoteProtocolError(
            f"a Metadata response gives topic {_shown(topic)} partition {count - 1}; kprod accepts"
            f" up to {PARTITIONS_PER_TOPIC_MAX} partitions"
        )
    ordered: list[Mapping[str, Any]] = [_MISSING_PARTITION] * count
    for item in partitions:
        index = item["partition_index"]
        if index < 0 or ordered[index] is not _MISSING_PARTITION:
            raise RemoteProtocolError(
                f"a Metadata response gives topic {_shown(topic)} partition {index}, which is"
                " negative or named twice"
            )
        ordered[index] = item
    return ordered


def _share(
    partitions: Sequence[Mapping[str, Any]], key: str, shared: dict[Replicas, Replicas]
) -> tuple[Replicas, ...]:
    """Read replica lists, each distinct one kept once."""
    lists = [tuple(item[key]) for item in partitions]
    return tuple([shared.setdefault(nodes, nodes) for nodes in lists])


def _shown(text: str) -> str:
    """A peer's text, safe to print: quoted, control characters escaped, not too long."""
    return ascii(text[:REASON_LENGTH_MAX])
