"""DescribeLogDirs: the directories of the broker that got the request, with each replica's size.

Behaviour.
    A. Without topics (null): every partition of which the broker has a replica. Else those that
       are asked for and are there; others are left out, as in Kafka.
    B. In memory there is one directory, named `memory`, as large as `log_bytes_max`.
    C. Replicas are offsets into one log, so each of them has the log's size.
    D. Not allowed: no directories, and from version 3 on CLUSTER_AUTHORIZATION_FAILED.
    E. A directory that has failed: KAFKA_STORAGE_ERROR, no replicas, and −1 for its bytes.
Rights: DESCRIBE on the cluster.
Versions: 1 to 5.
Left out: future replicas, since partitions do not move between directories.
Source: Kafka ReplicaManager.describeLogDirs, KIP-113, KIP-827.
"""

from collections.abc import Iterator
from itertools import starmap
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.log.partition_logs import MEMORY_PATH, DirectorySpace
from kprod.broker.replication import Partition
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode


class DescribeLogDirsHandler(Handler):
    """Describes directories."""

    api_key = ApiKey.DESCRIBE_LOG_DIRS
    versions: tuple[int, int] = (1, 5)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        if not request.access.may("DESCRIBE", "cluster"):
            request.answer(self.reject(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))  # case D
            return
        logs = self._state.logs
        results: dict[str, dict[str, Any]] = {
            space.path: {
                "error_code": int(
                    ErrorCode.KAFKA_STORAGE_ERROR if space.is_offline else ErrorCode.NONE
                ),  # case E
                "log_dir": space.path,
                "topics": {},
                "total_bytes": space.total_bytes,
                "usable_bytes": space.usable_bytes,
            }
            for space in logs.spaces() or (self._memory(),)
        }
        for partition in (it for it in self._wanted(request) if not it.is_offline):
            name = partition.name
            topics: dict[str, Any] = results[logs.path_of(name)]["topics"]
            topic = topics.setdefault(name.topic, {"name": name.topic, "partitions": []})
            topic["partitions"].append(_described(partition, request.node_id))
        for result in results.values():
            result["topics"] = list(result["topics"].values())
        request.answer({"error_code": int(ErrorCode.NONE), "results": list(results.values())})

    def reject(self, request: Request, code: int) -> Body:  # noqa: ARG002 - a Handler's
        """Respond with the error code alone."""
        return {"error_code": code, "results": []}

    def _memory(self) -> DirectorySpace:
        """Case B."""
        total_bytes = self._state.log_bytes_max
        return DirectorySpace(MEMORY_PATH, total_bytes, total_bytes - self._state.log_bytes)

    def _wanted(self, request: Request) -> Iterator[Partition]:
        """Case A."""
        asked = request.body["topics"]
        found: Iterator[Partition | None]
        if asked is None:
            found = self._state.topics.partitions()
        else:
            names = dict.fromkeys(
                (it["topic"], index) for it in asked for index in it["partitions"]
            )
            found = starmap(self._state.topics.partition, names)
        return (it for it in found if it is not None and request.node_id in it.replicas)


def _described(partition: Partition, node_id: int) -> dict[str, Any]:
    behind = partition.high_watermark - partition.replicas[node_id].log_end_offset
    return {
        "partition_index": partition.name.partition,
        "partition_size": partition.log.size_bytes,
        "offset_lag": max(behind, 0),
        "is_future_key": False,
    }
