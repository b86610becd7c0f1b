"""Metadata responses, written short."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec

VERSION = 13


def topic_entry(
    name: str, leaders: Sequence[tuple[int, int]], *, error_code: int = 0, topic_id: int = 0
) -> dict[str, Any]:
    """A topic whose partitions have these (leader, epoch) pairs."""
    return {
        "name": name,
        "error_code": error_code,
        "topic_id": uuid.UUID(int=topic_id),
        "partitions": [
            {
                "partition_index": index,
                "leader_id": leader_id,
                "leader_epoch": epoch,
                "replica_nodes": [1, 2, 3],
                "isr_nodes": [1, 2],
            }
            for index, (leader_id, epoch) in enumerate(leaders)
        ],
    }


def metadata_response(
    *topics: Mapping[str, Any], nodes: Sequence[int] = (1, 2, 3), **fields: Any
) -> dict[str, Any]:
    """A whole response, through the codec, as it would arrive."""
    codec = response_codec(ApiKey.METADATA, VERSION)
    return codec.decode(codec.encode(metadata_response_body(*topics, nodes=nodes, **fields)))


def metadata_response_body(
    *topics: Mapping[str, Any], nodes: Sequence[int] = (1, 2, 3), **fields: Any
) -> dict[str, Any]:
    """The fields of a response that a test sets; the codec adds the others."""
    return {
        "brokers": [
            {"node_id": node_id, "host": f"host-{node_id}", "port": 9000 + node_id}
            for node_id in nodes
        ],
        "cluster_id": "cluster",
        "controller_id": 1,
        "topics": list(topics),
        **fields,
    }
