"""A Metadata response: decodes the requested parts, validates them, and creates snapshot values.

The body is untrusted: indexes may repeat, have gaps or be absurd, names may be missing. Impossible
values are rejected here, so that a snapshot never contains them. A fault in one topic is that
topic's error, and the topic is requested again; other topics are used.

Bounds. Topics that were not requested are skipped undecoded. Of the brokers only the leaders of
known topics, the controller, and a few others are decoded. Each part is converted to snapshot
values before the next one is decoded, so that a large cluster is never held twice. A partition that
is missing in a response (older brokers omit it for a moment) has no leader; so that a single number
cannot demand a million of them, their count is limited by that of the present partitions.

Thread-safety: pure functions.
Source: MetadataResponse.json (kafka-clients 4.3.1).
"""

import heapq
from array import array
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kprod._core.wire.wire_bounds import Bounds
from kprod.cluster.snapshot import NO_EPOCH, NO_LEADER, TopicSnapshot
from kprod.errors import BrokerError, RemoteProtocolError
from kprod.model import PORT_MAX, Node
from kprod.peer_text import peer_text
from kprod.protocol.codec import MessageCodec
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.protocol.schema import BytesLike

PARTITIONS_PER_TOPIC_MAX = 1_000_000  # Kafka clusters end well below; an index above is hostile
HOLES_PER_PARTITION_MAX = 4
HOLES_MAX = 1_000  # more than that, for small topics
# in addition to the leaders: enough to choose from, and few enough for any memory
OTHER_BROKERS_MAX = 48

_ANSWER_BYTES = 16 * 1024
_TOPIC_BYTES = 1_024
_PARTITION_BYTES = 640  # a partition may take 700; the snapshot needs the rest
_BROKER_BYTES = 512

_MALFORMED = "MALFORMED_METADATA"
_SHARED_MAX = 1_024  # replica lists that are kept once; an honest cluster has fewer
_UNREAD = frozenset({"offline_replicas", "topic_authorized_operations"})

Replicas = tuple[int, ...]
_MISSING_PARTITION: Mapping[str, Any] = MappingProxyType(
    {"leader_id": NO_LEADER, "leader_epoch": NO_EPOCH, "replica_nodes": (), "isr_nodes": ()}
)


class MetadataResponse(NamedTuple):
    """The decoded fields of one response.

    Attributes:
        nodes: Brokers, by id: the leaders of topics, the controller, some others.
        topics: Topics that exist and have partitions.
        errors: Why a topic is not in `topics`.
        cluster_id: The cluster's id; None if the broker is too old to return it.
        controller_id: −1 when unknown.
        fields: The response's own fields, without brokers and topics.
    """

    nodes: Mapping[int, Node]
    topics: Mapping[str, TopicSnapshot]
    errors: Mapping[str, BrokerError]
    cluster_id: str | None
    controller_id: int
    fields: Mapping[str, Any] = MappingProxyType({})


def decode_answer(
    codec: MessageCodec,
    buffer: BytesLike,
    *,
    topics: Collection[str],
    leaders: Collection[int] = (),
    principal: str = "",
) -> MetadataResponse:
    """Read the bytes of a Metadata response.

    Args:
        codec: Codec of the response's version.
        buffer: The response without its header.
        topics: Names of the requested topics.
        leaders: Nodes whose addresses are wanted beside those of the topics' leaders.
        principal: User and mechanism, for the error of a topic that may not be described.

    Returns:
        The decoded content, restricted to the request.

    Raises:
        BrokerError: The response as a whole is an error.
        RemoteProtocolError: The response is malformed, exceeds its bounds, or fails the checks of
            `read_response`.
    """
    bounds = Bounds(
        memory_bytes=_ANSWER_BYTES,
        totals={"topics": len(topics)},
        chosen={"topics": ("name", topics)},
        element_bytes={"topics": _TOPIC_BYTES, "partitions": _PARTITION_BYTES},
        unread=_UNREAD | {"brokers"},
    )
    fields, _ = codec.decode_prefix(buffer, bounds)
    _raise_closed_error(fields)
    snapshots, errors = _read_topics(fields.pop("topics"), principal)
    del fields["brokers"]
    wanted = {*leaders, fields.get("controller_id", NO_LEADER)}
    for topic in snapshots.values():
        wanted.update(topic.leader_ids)
    return MetadataResponse(
        nodes=_decode_nodes(codec, buffer, wanted),
        topics=snapshots,
        errors=errors,
        cluster_id=fields.get("cluster_id"),
        controller_id=fields.get("controller_id", NO_LEADER),
        fields=fields,
    )


def read_response(body: Mapping[str, Any]) -> MetadataResponse:
    """Read a Metadata response of any version.

    Args:
        body: The completely decoded body.

    Returns:
        Its content; a topic without partitions counts as one that is not available yet, and one
        that is malformed as one whose error is retriable.

    Raises:
        BrokerError: The response as a whole is an error.
        RemoteProtocolError: No broker in it, a broker's id or port out of bounds.
    """
    _raise_closed_error(body)
    nodes = _read_nodes(body["brokers"])
    topics, errors = _read_topics(body["topics"])
    return MetadataResponse(
        nodes=nodes,
        topics=topics,
        errors=errors,
        cluster_id=body.get("cluster_id"),
        controller_id=body.get("controller_id", NO_LEADER),
    )


def _raise_closed_error(body: Mapping[str, Any]) -> None:
    if code := body.get("error_code", 0):
        rejection = error_for(code, "the Metadata request was rejected")
        raise rejection


class _Listed:
    """Collects the ids of all brokers without decoding them."""

    __slots__ = ("ids",)

    def __init__(self) -> None:
        self.ids = array("i")

    def __contains__(self, node_id: object) -> bool:
        assert isinstance(node_id, int)  # noqa: S101 - the schema's
        self.ids.append(node_id)
        return False


def _decode_nodes(
    codec: MessageCodec, buffer: BytesLike, wanted: Collection[int]
) -> Mapping[int, Node]:
    listed = _Listed()
    others = _UNREAD | {"topics", "rack"}
    codec.decode_prefix(
        buffer,
        Bounds(memory_bytes=_ANSWER_BYTES, chosen={"brokers": ("node_id", listed)}, unread=others),
    )
    kept = {node_id for node_id in listed.ids if node_id in wanted}
    # The lowest ids, so that the next response yields the same brokers.
    kept.update(heapq.nsmallest(OTHER_BROKERS_MAX, listed.ids))
    bounds = Bounds(
        memory_bytes=_ANSWER_BYTES,
        totals={"brokers": len(kept)},
        chosen={"brokers": ("node_id", kept)},
        element_bytes={"brokers": _BROKER_BYTES},
        unread=others - {"rack"},
    )
    fields, _ = codec.decode_prefix(buffer, bounds)
    return _read_nodes(fields["brokers"])


def _read_nodes(brokers: Sequence[Mapping[str, Any]]) -> Mapping[int, Node]:
    if not brokers:
        raise RemoteProtocolError("a Metadata response names no broker")
    nodes: dict[int, Node] = {}
    for broker in brokers:
        node = Node(broker["node_id"], broker["host"], broker["port"], broker.get("rack"))
        if not node.is_sound:
            raise RemoteProtocolError(
                f"a Metadata response names broker {node.node_id} at '{peer_text(node.host)}' port"
                f" {node.port}; an id is at least 0 and a port from 1 to {PORT_MAX}"
            )
        nodes[node.node_id] = node
    return MappingProxyType(nodes)


def _read_topics(
    entries: list[dict[str, Any]], principal: str = ""
) -> tuple[dict[str, TopicSnapshot], dict[str, BrokerError]]:
    topics: dict[str, TopicSnapshot] = {}
    errors: dict[str, BrokerError] = {}
    shared: dict[Replicas, Replicas] = {}
    for entry in entries:
        name = entry["name"]
        if name is None:
            continue
        if code := entry["error_code"]:
            told = f"topic '{peer_text(name)}'"
            errors[name] = denial_or_error(
                code, "DESCRIBE", name, principal=principal, message=told
            )
        elif not entry["partitions"]:
            errors[name] = error_for(
                ErrorCode.LEADER_NOT_AVAILABLE, f"topic '{peer_text(name)}' has no partitions yet"
            )
        else:
            try:
                topics[name] = _read_topic(entry, shared)
            except RemoteProtocolError as fault:
                errors[name] = _malformed(name, fault)
    return topics, errors


def _malformed(topic: str, fault: RemoteProtocolError) -> BrokerError:
    """Create the error of a topic whose entry is impossible; another broker may know better."""
    error = BrokerError(f"{_MALFORMED}: the response about topic '{peer_text(topic)}' {fault}")
    error.name, error.retriable = _MALFORMED, True
    return error


def _read_topic(entry: Mapping[str, Any], shared: dict[Replicas, Replicas]) -> TopicSnapshot:
    partitions: Sequence[Mapping[str, Any]] = entry["partitions"]
    if any(item["partition_index"] != index for index, item in enumerate(partitions)):
        partitions = _in_order(partitions)
    leader_ids = tuple([item["leader_id"] for item in partitions])
    leader_epochs = tuple([item["leader_epoch"] for item in partitions])
    if min(leader_ids) < NO_LEADER or min(leader_epochs) < NO_EPOCH:
        raise RemoteProtocolError(
            f"gives a partition leader {min(leader_ids)} or leader epoch {min(leader_epochs)};"
            " both are at least −1"
        )
    return TopicSnapshot(
        name=entry["name"],
        topic_id=entry["topic_id"],
        is_internal=entry["is_internal"],
        leader_ids=leader_ids,
        leader_epochs=leader_epochs,
        replicas=_share(partitions, "replica_nodes", shared),
        in_sync_replicas=_share(partitions, "isr_nodes", shared),
    )


def _in_order(partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put each partition at its index; a hole becomes a partition without leader."""
    highest = max(item["partition_index"] for item in partitions)
    highest_max = HOLES_PER_PARTITION_MAX * len(partitions) + HOLES_MAX
    if highest > min(highest_max, PARTITIONS_PER_TOPIC_MAX - 1):
        raise RemoteProtocolError(
            f"has {len(partitions)} partitions, of which one has number {highest}; kprod accepts"
            f" numbers up to {min(highest_max, PARTITIONS_PER_TOPIC_MAX - 1)} there"
        )
    ordered: list[Mapping[str, Any]] = [_MISSING_PARTITION] * (highest + 1)
    for item in partitions:
        index = item["partition_index"]
        if index < 0 or ordered[index] is not _MISSING_PARTITION:
            raise RemoteProtocolError(f"names partition {index}, which is negative or named twice")
        ordered[index] = item
    return ordered


def _share(
    partitions: Sequence[Mapping[str, Any]], key: str, shared: dict[Replicas, Replicas]
) -> tuple[Replicas, ...]:
    """Read replica lists; equal ones are kept once, as long as they are few."""
    kept = []
    for item in partitions:
        nodes = tuple(item[key])
        known = shared.get(nodes)
        if known is None:
            known = nodes
            if len(shared) < _SHARED_MAX:
                shared[nodes] = nodes
        kept.append(known)
    return tuple(kept)
