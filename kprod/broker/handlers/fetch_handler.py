"""Fetch: batches of some partitions, below the high watermark or the last stable offset.

Behaviour.
    A. An unknown partition: UNKNOWN_TOPIC_OR_PARTITION; an unknown id: UNKNOWN_TOPIC_ID.
    B. Another broker leads: NOT_LEADER_OR_FOLLOWER; from version 12 with the leader, from 16 with
       its address.
    C. The client's leader epoch is older: FENCED_LEADER_EPOCH; newer: UNKNOWN_LEADER_EPOCH.
    D. The offset is below the log's start or above its end: OFFSET_OUT_OF_RANGE. From version 12 on
       a reader says which epoch its last record has: where the log's epochs tell that the record
       was lost since, the response has no records but the epoch and the offset at which it must
       continue (KIP-595), and leaves at once; an epoch of which nothing is known:
       OFFSET_OUT_OF_RANGE.
    E. The first batch of the response comes whole whatever its size (KIP-74); after it `max_bytes`
       and `partition_max_bytes` hold, and the last batch of a partition may be cut off. Another
       partition whose first batch does not fit gives nothing.
    F. Fewer than `min_bytes` and no error: it waits, as `delayed.fetch` says.
    G. A batch of zstd goes to version 10 and above; an older one gets the batches before it, and
       UNSUPPORTED_COMPRESSION_TYPE when it comes first, as Kafka 3.9 answered where it converted.
       Kafka 4 sends it to clients too old to read it.
    H. Versions 0 to 3 get message sets; see `log.legacy`.
    I. Sessions (KIP-227) are as `fetch_sessions` says. A session that ended or went on while its
       fetch waited: INVALID_FETCH_SESSION_EPOCH.
    J. `isolation_level` 1 reads up to the last stable offset, and is told of the aborted
       transactions that have records in the response, or soon after it.
    K. Where brokers have racks, a reader that tells its own (from version 11 on) is sent from the
       leader to the in-sync replica of that rack which is furthest ahead, and gets no records from
       the leader. Followers serve these versions up to the high watermark and to what they have
       copied; beyond that OFFSET_NOT_AVAILABLE (KIP-392; Kafka's answer OFFSET_OUT_OF_RANGE).
    L. The log cannot be read, or its directory has failed: KAFKA_STORAGE_ERROR.
Rights: READ on the topic.
Versions: 0 to 18; 0 to 3 as Kafka 3.9 served them.
Left out: followers of other processes, tiered storage.
Source: Kafka KafkaApis.handleFetchRequest, ReplicaManager.readFromLog.
"""

import itertools
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from kprod.broker.cluster_state import ClusterState
from kprod.broker.delayed.delayed_fetch import DelayedFetch, WaitingRead, is_readable
from kprod.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION_ID,
    FetchSession,
    FetchSessions,
)
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.log.aborted_lookup import aborted_in
from kprod.broker.log.epochs import EpochEnd
from kprod.broker.log.legacy import lowered
from kprod.broker.partition_transactions import last_stable_offset, replica_end
from kprod.broker.rejection import Rejected
from kprod.broker.replica_choice import nearest_follower, serves_as_follower
from kprod.broker.replication import Partition
from kprod.broker.request import Body, Request
from kprod.model import CODECS
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from kprod.record.reader import read_batches

_FIRST_VERSION_WITH_BATCHES = 4
_FIRST_VERSION_WITH_ALL_CODECS = max(it.first_fetch_version for it in CODECS.values())
_FIRST_VERSION_WITH_RACKS = 11
_FIRST_VERSION_WITH_LEADERS = 12
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_ENDPOINTS = 16
_NO_EPOCH = -1
_ALL_RECORDS = 0  # an isolation level
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class _Wanted(NamedTuple):
    """One partition of the request: the place to read from, or an error."""

    entry: Mapping[str, Any]
    partition: Partition | None
    code: int
    diverging: EpochEnd | None = None
    preferred: int | None = None  # case K
    is_follower: bool = False


class _Topic(NamedTuple):
    """One topic of the request."""

    name: str
    topic_id: uuid.UUID
    wanted: list[_Wanted]


class _Asked(NamedTuple):
    """The partitions of a fetch, and its session.

    Attributes:
        topics: All topics to read.
        session: The continued session; None for a full fetch.
        epoch: The session's epoch; differs from the current one if the session continued meanwhile.
    """

    topics: list[Mapping[str, Any]]
    session: FetchSession | None = None
    epoch: int = 0


class FetchHandler(Handler):
    """Reads batches."""

    api_key = ApiKey.FETCH
    versions: tuple[int, int] = (0, 18)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Read, immediately or when there are enough bytes."""
        asked = self._asked(request)
        if isinstance(asked, ErrorCode):
            request.answer(_session_error(asked))
            return
        topics = [self._looked_up(request, topic) for topic in asked.topics]
        wanted = [it for topic in topics for it in topic.wanted]
        is_settled = not wanted or any(
            it.code or it.diverging or it.preferred is not None for it in wanted
        )
        if is_settled or request.body["max_wait_ms"] <= 0:
            request.answer(self._response(request, asked, topics))
            return
        reads = [
            WaitingRead(
                it.partition,
                request.node_id,
                it.entry["fetch_offset"],
                it.entry["partition_max_bytes"],
                request.body["isolation_level"],
                it.is_follower,
            )
            for it in wanted
            if it.partition is not None
        ]
        operation = DelayedFetch(
            reads,
            min_bytes=request.body["min_bytes"],
            max_wait_ms=request.body["max_wait_ms"],
            finish=lambda: request.run(lambda: request.answer(self._read_again(request, asked))),
        )
        keys = [read.partition.name for read in reads]
        self._state.waiting_fetches.try_complete_or_watch(operation, keys)

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every partition."""
        asked = self._asked(request)
        if isinstance(asked, ErrorCode):
            return _session_error(asked)
        topics = [
            _Topic(
                topic["topic"],
                topic["topic_id"],
                [_Wanted(entry, None, code) for entry in topic["partitions"]],
            )
            for topic in asked.topics
        ]
        return self._response(request, asked, topics)

    def _read_again(self, request: Request, asked: _Asked) -> Body:
        """Look everything up again, since it may have changed while the fetch waited."""
        topics = [self._looked_up(request, topic) for topic in asked.topics]
        return self._response(request, asked, topics)

    def _sessions(self, request: Request) -> FetchSessions:
        return self._state.fetch_sessions[request.node_id]

    def _asked(self, request: Request) -> _Asked | ErrorCode:
        """Determine what to read (case I)."""
        body, sessions = request.body, self._sessions(request)
        if body["session_epoch"] in {INITIAL_EPOCH, FINAL_EPOCH}:
            sessions.end(body["session_id"])
            return _Asked(body["topics"])
        now_ms = self._state.clock.now_ms()
        session = sessions.go_on(body, api_version=request.api_version, now_ms=now_ms)
        if isinstance(session, ErrorCode):
            return session
        return _Asked(session.topics(), session, session.epoch)

    def _response(self, request: Request, asked: _Asked, topics: list[_Topic]) -> Body:
        """Read, and omit unchanged partitions of the session."""
        session = asked.session
        if session is not None and session.epoch != asked.epoch:
            return _session_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        body = self._read(request, topics)
        if session is not None:
            return session.keep_news(body) if session.size else body
        if request.body["session_epoch"] == INITIAL_EPOCH:
            session = self._sessions(request).begin(
                asked.topics, api_version=request.api_version, now_ms=self._state.clock.now_ms()
            )
        return body if session is None else session.keep_news(body, is_full=True)

    def _looked_up(self, request: Request, topic: Mapping[str, Any]) -> _Topic:
        name, topic_id = topic["topic"], topic["topic_id"]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            known = self._state.topics.get_by_id(topic_id)
            if known is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
            name = "" if known is None else known.name
        if name and not request.access.may("READ", "topic", name):
            denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            rejected = [_Wanted(entry, None, denied) for entry in topic["partitions"]]
            return _Topic(name, topic_id, rejected)
        wanted = []
        for entry in topic["partitions"]:
            partition = self._state.topics.partition(name, entry["partition"])
            if partition is None:
                wanted.append(_Wanted(entry, None, int(unknown)))  # case A
            else:
                wanted.append(_judged(self._state, request, partition, entry))
        return _Topic(name, topic_id, wanted)

    def _read(self, request: Request, topics: list[_Topic]) -> dict[str, Any]:
        left = min(request.body["max_bytes"], self._state.config.fetch_bytes_max)
        responses = []
        leaders: set[int] = set()
        is_first = True
        for topic in topics:
            answers = []
            for wanted in topic.wanted:
                answer = _partition_response(wanted)
                if wanted.diverging is not None:
                    answer["diverging_epoch"] = wanted.diverging._asdict()  # case D
                elif wanted.preferred is not None:
                    answer["preferred_read_replica"] = wanted.preferred  # case K
                elif not wanted.code and wanted.partition is not None:
                    given = _filled(request, wanted, answer, left, is_first=is_first)
                    left -= given
                    is_first = is_first and not given
                elif wanted.partition is not None and wanted.code in _MOVED:
                    self._tell_leader(request, wanted.partition, answer)
                    leaders.add(wanted.partition.leader_id)
                answers.append(answer)
            responses.append(
                {"topic": topic.name, "topic_id": topic.topic_id, "partitions": answers}
            )
        body: dict[str, Any] = {"responses": responses}
        if request.api_version >= _FIRST_VERSION_WITH_ENDPOINTS:
            body["node_endpoints"] = [
                {"node_id": node.node_id, "host": node.host, "port": node.port}
                for node in self._state.alive_nodes
                if node.node_id in leaders
            ]
        return body

    def _tell_leader(self, request: Request, partition: Partition, answer: dict[str, Any]) -> None:
        if request.api_version >= _FIRST_VERSION_WITH_LEADERS:
            answer["current_leader"] = {
                "leader_id": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
            }


def _session_error(code: ErrorCode) -> Body:
    return {"error_code": int(code), "session_id": NO_SESSION_ID, "responses": []}


def check_leader_epoch(partition: Partition, epoch: int) -> None:
    """Compare the client's leader epoch with the partition's.

    Args:
        partition: The requested partition.
        epoch: The client's leader epoch; −1 if unknown.

    Raises:
        Rejected: The epochs differ.
    """
    if epoch in {_NO_EPOCH, partition.leader_epoch}:
        return
    message = f"leader epoch {epoch}, {partition.name} has {partition.leader_epoch}"
    if epoch < partition.leader_epoch:
        raise Rejected(ErrorCode.FENCED_LEADER_EPOCH, message)
    raise Rejected(ErrorCode.UNKNOWN_LEADER_EPOCH, message)


def _judged(
    state: ClusterState, request: Request, partition: Partition, entry: Mapping[str, Any]
) -> _Wanted:
    knows_racks = request.api_version >= _FIRST_VERSION_WITH_RACKS
    is_follower = knows_racks and serves_as_follower(state, partition, request.node_id)
    code = ErrorCode.NONE if is_follower else partition.why_not_led_by(request.node_id)
    if code:
        return _Wanted(entry, partition, int(code))  # cases B and L
    try:
        check_leader_epoch(partition, entry["current_leader_epoch"])
        diverging = _diverging(partition, entry["last_fetched_epoch"], entry["fetch_offset"])
    except Rejected as rejected:
        return _Wanted(entry, partition, rejected.code)  # cases C and D
    if diverging is None and not is_readable(partition, entry["fetch_offset"]):
        return _Wanted(entry, partition, int(ErrorCode.OFFSET_OUT_OF_RANGE))  # case D
    offset = entry["fetch_offset"]
    if is_follower:
        if diverging is None and offset > replica_end(partition, request.node_id, _ALL_RECORDS):
            return _Wanted(entry, partition, int(ErrorCode.OFFSET_NOT_AVAILABLE))  # case K
        return _Wanted(entry, partition, int(ErrorCode.NONE), diverging, is_follower=True)
    rack = request.body["rack_id"] if knows_racks else ""
    nearest = nearest_follower(state, partition, rack, offset)
    return _Wanted(entry, partition, int(ErrorCode.NONE), diverging, nearest)


def _diverging(partition: Partition, last_fetched_epoch: int, offset: int) -> EpochEnd | None:
    """Return the end of the reader's last epoch in this log, if the reader is past that end.

    Raises:
        Rejected: The epoch is unknown, or the reader is before the log's start.
    """
    if last_fetched_epoch == _NO_EPOCH:
        return None
    end = partition.log.epochs.end_of(last_fetched_epoch, partition.log.log_end_offset)
    if end.end_offset < 0 or offset < partition.log.log_start_offset:
        raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE)
    return end if end.epoch < last_fetched_epoch or end.end_offset < offset else None


def _filled(
    request: Request, wanted: _Wanted, answer: dict[str, Any], left: int, *, is_first: bool
) -> int:
    """Put a partition's batches into its response; how many bytes these are."""
    try:
        pieces = _pieces(request, wanted, left, is_first=is_first)
        given = sum(map(len, pieces))
        _tell_aborted(request, wanted, answer, given)
    except OSError:
        answer["error_code"] = int(ErrorCode.KAFKA_STORAGE_ERROR)  # case L
        return 0
    _give(request, answer, pieces)
    return given


def _pieces(request: Request, wanted: _Wanted, left: int, *, is_first: bool) -> list[memoryview]:
    if wanted.partition is None or (left <= 0 and not is_first):
        return []
    return wanted.partition.log.read(
        wanted.entry["fetch_offset"],
        limit_offset=replica_end(
            wanted.partition, request.node_id, request.body["isolation_level"]
        ),
        max_bytes=min(left, wanted.entry["partition_max_bytes"]),
        whole_first=is_first,  # case E
    )


def _tell_aborted(
    request: Request, wanted: _Wanted, answer: dict[str, Any], count_bytes: int
) -> None:
    """Case J: add the aborted transactions whose records must be skipped."""
    level, partition = request.body["isolation_level"], wanted.partition
    if not level or partition is None:
        return
    offset = wanted.entry["fetch_offset"]
    limit_offset = replica_end(partition, request.node_id, level)
    aborted = aborted_in(partition.log, offset, count_bytes, limit_offset) if count_bytes else []
    answer["aborted_transactions"] = [
        {"producer_id": it.producer_id, "first_offset": it.first_offset} for it in aborted
    ]


def _give(request: Request, answer: dict[str, Any], pieces: list[memoryview]) -> None:
    """Cases G and H: add the batches to the response, in the client's format."""
    encoded = b"".join(pieces)
    if request.api_version < _FIRST_VERSION_WITH_ALL_CODECS:
        batches = read_batches(encoded, check_crc=False)  # without the last batch, which is cut off
        readable = [
            it.view
            for it in itertools.takewhile(
                lambda it: CODECS[it.codec].first_fetch_version <= request.api_version, batches
            )
        ]
        if encoded and not readable:
            answer["error_code"] = int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            return
        encoded = b"".join(readable)
    if request.api_version < _FIRST_VERSION_WITH_BATCHES:
        encoded = lowered(encoded, api_version=request.api_version)
    answer["records"] = encoded


def _partition_response(wanted: _Wanted) -> dict[str, Any]:
    partition = wanted.partition
    known = partition is not None and not wanted.code
    return {
        "partition_index": wanted.entry["partition"],
        "error_code": wanted.code,
        "high_watermark": partition.high_watermark if known and partition else -1,
        "last_stable_offset": last_stable_offset(partition) if known and partition else -1,
        "log_start_offset": partition.log.log_start_offset if known and partition else -1,
        "aborted_transactions": None if partition else [],
        "records": b"",
    }
