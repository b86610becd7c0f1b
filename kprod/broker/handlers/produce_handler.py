"""Produce: appends one batch to each of some partitions.

Behaviour.
    A. acks other than 0, 1 and −1: INVALID_REQUIRED_ACKS for every partition.
    B. An unknown partition: UNKNOWN_TOPIC_OR_PARTITION; an unknown id: UNKNOWN_TOPIC_ID.
    C. Another broker leads: NOT_LEADER_OR_FOLLOWER; from version 10 with the leader, and its
       address (KIP-951).
    D. The batch breaks a rule of `log.validation`: that rule's error, from version 8 with the
       records that are wrong, and with a text, where Kafka often has none. A rule of the log itself
       leaves `log_start_offset` in the response.
    E. A duplicate of one of the producer's last five batches: no error, and the first's offset.
    F. acks=−1 and too few in sync: NOT_ENOUGH_REPLICAS; it waits until all in-sync replicas have
       the batch, as `delayed.produce` says, at most `timeout_ms`.
    G. acks=0: no response; any error closes the connection, which is all a client can be told.
    H. All logs in memory together would pass `log_bytes_max`, or the batch cannot be written to
       disk: KAFKA_STORAGE_ERROR.
    I. Versions 0 to 2 bring message sets, which are converted; see `log.legacy`.
    J. A transactional batch without a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for
       every partition.
    K. A long request is handled in slices, a partition at a time; compressed records count for
       what they may unpack to.
    L. `__consumer_offsets`: INVALID_TOPIC_EXCEPTION.
Rights: WRITE on the topic, and on the transactional id of transactional records.
Versions: 0 to 13; 0 to 2 as Kafka 3.9 served them.
Left out: transactions.
Source: Kafka KafkaApis.handleProduceRequest, ReplicaManager.appendRecords.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kprod._core.layout import BatchAttributes, BatchLayout, Magic
from kprod.broker.cluster_state import ClusterState
from kprod.broker.delayed.delayed_produce import DelayedProduce, WaitingAppend
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.broker.log.legacy import up_convert_batches
from kprod.broker.log.validation import validate_batch
from kprod.broker.rejection import Rejected, RejectedByLog
from kprod.broker.replication import Appended, Partition
from kprod.broker.request import Body, Request
from kprod.broker.work_slices import SLICE_COST, run_in_slices
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode

_ACKS = (-1, 0, 1)
_FIRST_VERSION_WITH_BATCHES = 3
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_LEADERS = 10
# A batch smaller than this share of its request is copied, so that it does not keep the whole
# request's memory alive.
_ADOPTED_SHARE = 2
# Cost of a byte of compressed records: above the usual compression ratio, and low enough that a
# slice has a few of the largest batches.
_UNPACKED_SHARE = 64
# The low byte of a batch's attributes, which has all known flags.
_ATTRIBUTES_AT = BatchLayout.ATTRIBUTES_OFFSET + 1


class _Part(NamedTuple):
    """One partition's part of the response, and the append that it may wait for."""

    answer: dict[str, Any]
    waiting: WaitingAppend | None


class ProduceHandler(Handler):
    """Appends batches."""

    api_key = ApiKey.PRODUCE
    versions: tuple[int, int] = (0, 13)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Create a handler for a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Append the batches; respond at once, or when the followers have replicated them."""
        acks = request.body["acks"]
        request.wants_response = acks != 0
        if acks not in _ACKS:
            request.answer(self.reject(request, ErrorCode.INVALID_REQUIRED_ACKS))  # case A
            return
        if _has_transactional_batch(request.body) and not _may_be_transactional(request):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            request.answer(self.reject(request, code))  # case J
            return
        responses: list[dict[str, Any]] = []
        waiting: list[WaitingAppend] = []
        run_in_slices(
            request,
            self._each(request, responses, waiting),
            lambda: self._finish(request, responses, waiting),
            self._state.soon,
        )

    def reject(self, request: Request, code: int) -> Body:
        """Set the error code for every partition."""
        responses = [
            _topic_response(
                topic, [_rejected(it["index"], Rejected(code)) for it in topic["partition_data"]]
            )
            for topic in request.body["topic_data"]
        ]
        return self._with_leaders(request, {"responses": responses})

    def _each(
        self,
        request: Request,
        responses: list[dict[str, Any]],
        waiting: list[WaitingAppend],
    ) -> Iterator[int]:
        """Case K: one partition at a time."""
        for topic in request.body["topic_data"]:
            answers: list[dict[str, Any]] = []
            responses.append(_topic_response(topic, answers))
            for entry in topic["partition_data"]:
                cost = _cost(entry["records"])
                part = self._append(request, topic, entry)
                answers.append(part.answer)
                if part.waiting is not None:
                    waiting.append(part.waiting)
                yield cost

    def _finish(
        self,
        request: Request,
        responses: list[dict[str, Any]],
        waiting: list[WaitingAppend],
    ) -> None:
        """Respond, or wait for the followers."""
        acks = request.body["acks"]
        body = {"responses": responses}
        if acks == 0:
            self._end_without_response(request, responses)
        elif acks == 1 or not waiting:
            request.answer(self._with_leaders(request, body))
        else:
            operation = DelayedProduce(
                waiting,
                timeout_ms=request.body["timeout_ms"],
                finish=lambda: request.run(
                    lambda: request.answer(self._with_leaders(request, body))
                ),
            )
            keys = [it.partition.name for it in waiting]
            self._state.waiting_produces.try_complete_or_watch(operation, keys)

    def _append(self, request: Request, topic: dict[str, Any], entry: dict[str, Any]) -> _Part:
        index = entry["index"]
        log_start_offset = -1
        try:
            partition = self._found(request, topic, index)
            log_start_offset = partition.log.log_start_offset
            return self._appended(request, partition, entry["records"])
        except RejectedByLog as rejected:
            answer = _rejected(index, rejected)
            answer["log_start_offset"] = log_start_offset
            answer["record_errors"] = [
                {"batch_index": number, "batch_index_error_message": text}
                for number, text in rejected.record_texts.items()
            ]
            return _Part(answer, None)
        except Rejected as rejected:
            return _Part(_rejected(index, rejected), None)

    def _found(self, request: Request, topic: dict[str, Any], index: int) -> Partition:
        name = topic["name"]
        if request.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            known = self._state.topics.get_by_id(topic["topic_id"])
            if known is None:
                raise Rejected(
                    ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic['topic_id']}"
                )  # case B
            name = known.name
        request.access.check("WRITE", "topic", name)
        partition = self._state.topics.partition(name, index)
        if partition is None:
            raise Rejected(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}"
            )  # case B
        return partition

    def _appended(
        self, request: Request, partition: Partition, records: memoryview | None
    ) -> _Part:
        if partition.name.topic == OFFSETS_TOPIC:
            raise Rejected(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{OFFSETS_TOPIC} is written by the group coordinator alone",
            )  # case L
        code = partition.why_not_led_by(request.node_id)
        if code:
            raise Rejected(
                code, f"broker {request.node_id} does not lead {partition.name}"
            )  # cases C and H
        if request.api_version < _FIRST_VERSION_WITH_BATCHES:
            batches = up_convert_batches(
                records,
                api_version=request.api_version,
                bytes_max=partition.config.max_message_bytes,
            )
        else:
            batches = [_owned(records)]
        placed = [self._placed(request, partition, it) for it in batches]
        answer = {
            "index": partition.name.partition,
            "error_code": int(ErrorCode.NONE),
            "base_offset": placed[0].base_offset,
            "log_append_time_ms": placed[0].log_append_time_ms,
            "log_start_offset": partition.log.log_start_offset,
        }
        required = placed[-1].last_offset + 1
        if request.body["acks"] != -1 or partition.high_watermark >= required:
            return _Part(answer, None)
        return _Part(answer, WaitingAppend(partition, request.node_id, required, answer))

    def _placed(self, request: Request, partition: Partition, encoded: memoryview) -> Appended:
        state = self._state
        timestamp_ms = state.clock.timestamp_ms()
        batch = validate_batch(
            encoded,
            partition.config,
            api_version=max(request.api_version, _FIRST_VERSION_WITH_BATCHES),
            timestamp_ms=timestamp_ms,
        )
        encoded = encoded[: batch.size_bytes]  # without the cut-off batch after it
        if state.log_bytes + batch.size_bytes > state.log_bytes_max:
            raise Rejected(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the logs have {state.log_bytes} bytes; the limit is log_bytes_max",
            )  # case H
        size_before = partition.log.size_bytes
        try:
            appended = partition.append(batch, encoded, timestamp_ms, acks=request.body["acks"])
        except OSError as error:
            text = f"a batch of {partition.name} cannot be written: {error}"
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, text) from error  # case H
        state.log_bytes += partition.log.size_bytes - size_before
        return appended

    def _with_leaders(self, request: Request, body: dict[str, Any]) -> Body:
        """Case C: add the current leader of each partition that this broker does not lead."""
        if request.api_version < _FIRST_VERSION_WITH_LEADERS:
            return body
        leaders: set[int] = set()
        moved = (
            (topic, answer)
            for topic in body["responses"]
            for answer in topic["partition_responses"]
            if answer["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        for topic, answer in moved:
            partition = self._known(request, topic, answer["index"])
            if partition is None:
                continue  # deleted meanwhile, or nonexistent and the code is an injected fault
            leaders.add(partition.leader_id)
            answer["current_leader"] = {
                "leader_id": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
            }
        nodes = [node for node in self._state.alive_nodes if node.node_id in leaders]
        endpoints = [
            {"node_id": node.node_id, "host": node.host, "port": node.port} for node in nodes
        ]
        return {**body, "node_endpoints": endpoints}

    def _known(self, request: Request, topic: dict[str, Any], index: int) -> Partition | None:
        try:
            return self._found(request, topic, index)
        except Rejected:
            return None

    def _end_without_response(self, request: Request, responses: list[dict[str, Any]]) -> None:
        codes = [it["error_code"] for topic in responses for it in topic["partition_responses"]]
        if any(codes):
            request.disconnect()  # case G
        else:
            request.respond_nothing()


def _topic_response(topic: dict[str, Any], answers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": topic["name"],
        "topic_id": topic["topic_id"],
        "partition_responses": answers,
    }


def _rejected(index: int, rejected: Rejected) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": rejected.code,
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
        "error_message": rejected.text or None,
    }


def _may_be_transactional(request: Request) -> bool:
    transactional_id = request.body["transactional_id"]
    return transactional_id is not None and request.access.may(
        "WRITE", "transactional_id", transactional_id
    )


def _has_transactional_batch(body: Mapping[str, Any]) -> bool:
    return any(
        _is_transactional(entry["records"])
        for topic in body["topic_data"]
        for entry in topic["partition_data"]
    )


def _is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) >= BatchLayout.BATCH_OVERHEAD_BYTES
        and records[BatchLayout.MAGIC_OFFSET] == Magic.MAGIC_V2
        and bool(records[_ATTRIBUTES_AT] & BatchAttributes.TRANSACTIONAL_MASK)
    )


def _cost(records: memoryview | None) -> int:
    """The cost of a partition's records, in units of a slice."""
    if not records or len(records) < BatchLayout.BATCH_OVERHEAD_BYTES:
        return 1
    if records[BatchLayout.MAGIC_OFFSET] != Magic.MAGIC_V2:
        return SLICE_COST  # read, decompressed, and written again, record by record
    is_compressed = bool(records[_ATTRIBUTES_AT] & BatchAttributes.CODEC_MASK)
    return len(records) * (_UNPACKED_SHARE if is_compressed else 1)


def _owned(records: memoryview | None) -> memoryview:
    if records is None:
        return memoryview(bytearray())
    request = records.obj
    if isinstance(request, bytearray) and len(records) * _ADOPTED_SHARE >= len(request):
        return records
    return memoryview(bytearray(records))
