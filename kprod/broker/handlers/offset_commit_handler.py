"""OffsetCommit: stores offsets of a group.

Behaviour, for each partition.
    A. Topic or partition unknown: UNKNOWN_TOPIC_OR_PARTITION; from version 10, where topics have
       ids, an unknown id is UNKNOWN_TOPIC_ID. These are told even if the rest is rejected.
    B. The committing member is checked by `group.committing`; a rejection is told for every
       partition.
    C. The client's text is longer than `offset_metadata_max_bytes`: OFFSET_METADATA_TOO_LARGE.
    D. A negative offset is stored, as in Kafka.
    E. The response waits until the in-sync replicas of `__consumer_offsets` have the commit, or
       `offsets_commit_timeout_ms` are over. A commit that is not replicated by then is not seen
       until the coordinator's next load finds it in the log; Kafka shows it as soon as it is
       replicated.
Rights: READ on the group, before anything else, and on the topic.
Versions: 1 to 10; 1 as Kafka 3.9 served it.
Left out: version 0, which stored in ZooKeeper.
Source: Kafka KafkaApis.handleOffsetCommitRequest, OffsetMetadataManager.commitOffset.
"""

from collections.abc import Mapping
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.committing import Commit, check_commit, commit
from kprod.broker.group.records import NO_TIMESTAMP, Offset, OffsetKey
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.broker.topic import Topic
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_FIRST_VERSION_WITH_TOPIC_IDS = 10
_NO_RETENTION = -1
_LAST_TIMESTAMP_MS = 2**63 - 1

_Answer = dict[str, Any]


class OffsetCommitHandler(Handler):
    """Stores offsets."""

    api_key = ApiKey.OFFSET_COMMIT
    versions: tuple[int, int] = (1, 10)
    advertised: tuple[int, int] = (2, 10)

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Respond immediately, or when the commit is replicated."""
        if not request.access.may("READ", "group", request.body["group_id"]):
            request.answer(self.reject(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        topics: list[_Answer] = []
        wanted: list[tuple[Topic, Mapping[str, Any], _Answer]] = []
        for entry in request.body["topics"]:
            topic, code = self._topic(request, entry)
            answers: list[_Answer] = []
            topics.append(_topic_answer(entry, answers))
            for partition in entry["partitions"]:
                index = partition["partition_index"]
                answer = {"partition_index": index, "error_code": int(code)}
                answers.append(answer)
                if topic is None:
                    continue  # case A
                if not request.access.may("READ", "topic", topic.name):
                    answer["error_code"] = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    continue
                if not 0 <= index < len(topic.partitions):
                    answer["error_code"] = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted.append((topic, partition, answer))
        if not wanted:
            request.answer({"topics": topics})
        else:
            self._commit(request, topics, wanted)

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every partition."""
        topics = [
            _topic_answer(
                entry,
                [
                    {"partition_index": it["partition_index"], "error_code": int(code)}
                    for it in entry["partitions"]
                ],
            )
            for entry in request.body["topics"]
        ]
        return {"topics": topics}

    def _topic(self, request: Request, entry: Mapping[str, Any]) -> tuple[Topic | None, ErrorCode]:
        if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            return self._state.topics.get_by_id(entry["topic_id"]), ErrorCode.UNKNOWN_TOPIC_ID
        topic = self._state.topics.get(entry["name"])
        return topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _commit(
        self,
        request: Request,
        topics: list[_Answer],
        wanted: list[tuple[Topic, Mapping[str, Any], _Answer]],
    ) -> None:
        def finish(code: int, answers: list[_Answer]) -> None:
            for answer in answers:
                answer["error_code"] = int(code)
            request.answer({"topics": topics})

        try:
            shard = self._state.groups.shard(request.node_id, request.body["group_id"])
            is_new = request.body["group_id"] not in shard.groups
            group = check_commit(shard, request)
        except Rejected as rejected:
            finish(rejected.code, [answer for _, _, answer in wanted])  # case B
            return
        commits: list[Commit] = []
        taken: list[_Answer] = []
        for topic, entry, answer in wanted:
            metadata = entry["committed_metadata"] or ""
            if _utf16_length(metadata) > self._state.config.offset_metadata_max_bytes:
                answer["error_code"] = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)  # case C
                continue
            key = OffsetKey(request.body["group_id"], topic.name, entry["partition_index"])
            commits.append((key, self._offset(request, topic, entry)))
            taken.append(answer)
        if commits:
            commit(
                shard,
                commits,
                lambda code: request.run(lambda: finish(code, taken)),
                new_group=group if is_new else None,
            )
        else:
            finish(ErrorCode.NONE, [])

    def _offset(self, request: Request, topic: Topic, entry: Mapping[str, Any]) -> Offset:
        now_ms = self._state.clock.timestamp_ms()
        stamped_ms = entry["commit_timestamp"]
        retention_ms = request.body["retention_time_ms"]
        return Offset(
            offset=entry["committed_offset"],
            leader_epoch=entry["committed_leader_epoch"],
            metadata=entry["committed_metadata"] or "",
            commit_timestamp_ms=now_ms if stamped_ms == NO_TIMESTAMP else stamped_ms,
            expire_timestamp_ms=(
                NO_TIMESTAMP
                if retention_ms == _NO_RETENTION
                else min(now_ms + retention_ms, _LAST_TIMESTAMP_MS)
            ),
            topic_id=topic.topic_id,
        )


def _utf16_length(text: str) -> int:
    """The length of a text in Java."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _topic_answer(entry: Mapping[str, Any], answers: list[_Answer]) -> _Answer:
    return {"name": entry["name"], "topic_id": entry["topic_id"], "partitions": answers}
