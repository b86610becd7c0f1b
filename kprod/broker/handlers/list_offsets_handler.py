"""ListOffsets: the start, the end, or the first offset at or after a time.

Behaviour.
    A. −2 earliest, −1 latest (the high watermark, or the last stable offset with
       `isolation_level` 1), −3 the largest timestamp (from version 7), −4 earliest local, the same
       as −2 here (from 8), −5 latest tiered and −6 earliest to be tiered: none (from 9 and 11).
    B. A time: the first record stamped then or later; −1 and −1 when there is none, or when it lies
       at or beyond what −1 would give. So does the largest timestamp.
    C. Unknown partition, other leader, leader epoch: as in Fetch.
    D. Any other negative timestamp: UNSUPPORTED_VERSION for the partition.
    E. Version 0 answers a list: the offset, and the log's start if two or more are asked for.
    F. A partition twice in a request: INVALID_REQUEST.
    G. The high watermark lies below the offset at which the leader's epoch began, so that it may
       still fall: OFFSET_NOT_AVAILABLE for everything but the earliest, before version 5
       LEADER_NOT_AVAILABLE. An open transaction is no reason: its start is what −1 gives.
    H. The log cannot be read, or its directory has failed: KAFKA_STORAGE_ERROR.
Rights: DESCRIBE on the topic.
Versions: 0 to 11; 0 as Kafka 3.9 served it.
Left out: tiered storage.
Source: Kafka KafkaApis.handleListOffsetRequest, UnifiedLog.fetchOffsetByTimestamp.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from kprod.broker.cluster_state import ClusterState
from kprod.broker.handlers.fetch_handler import check_leader_epoch
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.time_lookup import first_record_at, latest_record
from kprod.broker.partition_transactions import readable_end
from kprod.broker.rejection import Rejected
from kprod.broker.replication import Partition
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_LATEST_TIERED, _EARLIEST_TO_BE_TIERED = -5, -6
_FIRST_VERSION_WITH_LEADER_EPOCH = 4
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_FIRST_VERSION_WITH = {
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_TO_BE_TIERED: 11,
}


class _Found(NamedTuple):
    """An offset, its record's timestamp and leader epoch; −1 if unknown."""

    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


class ListOffsetsHandler(Handler):
    """Finds offsets."""

    api_key = ApiKey.LIST_OFFSETS
    versions: tuple[int, int] = (0, 11)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately."""
        topics = [
            {"name": topic["name"], "partitions": self._all(request, topic)}
            for topic in request.body["topics"]
        ]
        request.answer({"topics": topics})

    def reject(self, request: Request, code: int) -> Body:  # a Handler's
        """Set the error code for every partition."""
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": entry["partition_index"], "error_code": code}
                    for entry in topic["partitions"]
                ],
            }
            for topic in request.body["topics"]
        ]
        return {"topics": topics}

    def _all(self, request: Request, topic: Mapping[str, Any]) -> list[dict[str, Any]]:
        counts = Counter(entry["partition_index"] for entry in topic["partitions"])
        entries = {entry["partition_index"]: entry for entry in topic["partitions"]}
        return [
            self._one(request, topic["name"], entry)
            if counts[index] == 1
            else {"partition_index": index, "error_code": int(ErrorCode.INVALID_REQUEST)}  # case F
            for index, entry in entries.items()
        ]

    def _one(self, request: Request, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        index = entry["partition_index"]
        try:
            found = self._looked_up(request, name, entry)
        except Rejected as rejected:
            return {"partition_index": index, "error_code": rejected.code}
        except OSError:  # case H
            return {"partition_index": index, "error_code": int(ErrorCode.KAFKA_STORAGE_ERROR)}
        if request.api_version == 0:
            return {"partition_index": index, "old_style_offsets": self._list(name, entry, found)}
        answer = {
            "partition_index": index,
            "error_code": int(ErrorCode.NONE),
            "timestamp": found.timestamp_ms,
            "offset": found.offset,
        }
        if request.api_version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
            answer["leader_epoch"] = found.leader_epoch
        return answer

    def _list(self, name: str, entry: Mapping[str, Any], found: _Found) -> list[int]:
        partition = self._state.topics.partition(name, entry["partition_index"])
        start = found.offset if partition is None else partition.log.log_start_offset
        offsets = sorted({max(found.offset, start), start}, reverse=True)
        return offsets[: max(entry["max_num_offsets"], 0)]

    def _looked_up(self, request: Request, name: str, entry: Mapping[str, Any]) -> _Found:
        request.access.check("DESCRIBE", "topic", name)
        partition = self._state.topics.led_partition(
            name, entry["partition_index"], request.node_id
        )
        check_leader_epoch(partition, entry["current_leader_epoch"])
        timestamp = entry["timestamp"]
        if request.api_version < _FIRST_VERSION_WITH.get(timestamp, 0):
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION)
        if timestamp in {_EARLIEST, _EARLIEST_LOCAL}:
            return _earliest(partition)
        end = readable_end(partition, request.body["isolation_level"])
        if partition.high_watermark < partition.log.epochs.start_of_latest:
            is_told = request.api_version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            raise Rejected(
                ErrorCode.OFFSET_NOT_AVAILABLE if is_told else ErrorCode.LEADER_NOT_AVAILABLE
            )  # case G
        if timestamp == _LATEST:
            return _Found(end, -1, partition.leader_epoch)
        found = _found(partition.log, timestamp)
        return found if found.offset < end else _Found()  # case B


def _earliest(partition: Partition) -> _Found:
    start = partition.log.log_start_offset
    return _Found(start, -1, partition.log.epochs.epoch_at(start))


def _found(log: PartitionLog, timestamp: int) -> _Found:
    if timestamp in {_LATEST_TIERED, _EARLIEST_TO_BE_TIERED}:
        return _Found()
    if timestamp == _MAX_TIMESTAMP:
        found = latest_record(log)
    elif timestamp >= 0:
        found = first_record_at(log, timestamp)
    else:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION)  # case D
    return _Found() if found is None else _Found(*found)
