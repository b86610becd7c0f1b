# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Fetches records ahead of the application, within the memory limit.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Each broker has at most one fetch in flight, always in a session (`fetch_session`), for the
partitions that `fetch_plan` has chosen.

Memory. A request may ask for the free memory, minus the amounts of other requests. A broker may
respond with one larger batch; so nothing is requested while less than `_LEAST_BYTES` are free. If
nothing is buffered, however, a request is always sent; otherwise a batch larger than the whole
memory would never be read.

The next fetch offset is read from the batch headers, without decoding records. It follows the
batch's last offset, not the last record's, so gaps left by compaction are skipped.

Thread-safety: the I/O thread.
Source: Kafka Fetcher and AbstractFetch (clients 4.3.1); KIP-74, KIP-227, KIP-392, KIP-951.
"""

from typing import Any

from kprod._core.record.batch_ends import NONE_FOLLOWS, last_batch
from kprod._core.wire.fetch_frames import LoneFetch
from kprod.cluster.metadata import Metadata
from kprod.config import FetchSettings
from kprod.consumer.fetch_buffer import FetchBuffer, FetchedBlock, ResponseMemory
from kprod.consumer.fetch_listener import FetchCounts, FetchListener
from kprod.consumer.fetch_plan import FetchPlan
from kprod.consumer.fetch_request import (
    FetchRequest,
    FetchTerms,
    aborted_transactions,
    closing_fetch,
    leader_hints,
    sound_nodes,
)
from kprod.consumer.fetch_session import (
    IDS_FIRST_VERSION,
    IDS_VERSIONS,
    LOST_CODES,
    NAMES_VERSIONS,
    FetchSession,
    Wanted,
    wanted_in,
)
from kprod.consumer.leader_questions import contradicts_metadata
from kprod.consumer.partition_texts import no_whole_batch
from kprod.consumer.position import DROPPED, AssignedPartition, State
from kprod.consumer.read_replica import ReadReplicas
from kprod.errors import Disconnected, KprodError, RequestTimeout
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient
from kprod.network.client_request import Outcome
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for

_LEAST_BYTES = 1_024  # brokers return whole batches even if less is requested
SMALL_BYTES = 32 * 1024  # for `lone_node_id`: half of what `DirectRead` reads
NO_NODE = -1
_CUT_OFF_MAX = 3  # consecutive responses with a part of a batch and nothing else
_ASK_LEADER = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE})


class Fetcher:
    """Fetches for one consumer.

    Attributes:
        counts: Its statistics.
        asked_bytes: Requested bytes of the fetches in flight, by node.
        has_left: Whether the partition of the last lone response has left its session.
        without_batch: Partitions whose response had no whole batch; `send` counts them, which runs
            Python code.
        lone_node_id: The node id of the broker with the newest records, if these were few and of
            one partition; −1 otherwise. The next records may be few, too, and the application may
            wait for them.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a fetch
        self,
        settings: FetchSettings,
        client: NetworkClient,
        metadata: Metadata,
        *,
        plan: FetchPlan,
        buffer: FetchBuffer,
        replicas: ReadReplicas,
        listener: FetchListener,
    ) -> None:
        """Start without a fetch in flight.

        Args:
            settings: Sizes and wait times.
            client: Sends the requests.
            metadata: Provides the nodes; gets the leaders that responses name.
            plan: The partitions to fetch.
            buffer: Gets the records.
            replicas: Gets the replicas that leaders name.
            listener: Called for partitions that were fetched, truncated, out of range or failed.
        """
        self._terms = FetchTerms(settings)
        self._client = client
        self._metadata = metadata
        self._plan = plan
        self._buffer = buffer
        self._replicas = replicas
        self._listener = listener
        self._on_fetched = self._complete  # bound once, not for each request
        self.asked_bytes: dict[int, int] = {}
        self.has_left: bool = False
        self.without_batch: list[Wanted] = []
        self.counts: FetchCounts = FetchCounts()
        self.lone_node_id: int = NO_NODE

    def send(self, now_ms: int) -> int:
        """Send a fetch to each broker that has partitions to fetch and no fetch in flight.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next attempt; connection events may come earlier.
        """
        while self.without_batch:
            self._take_cut_off(self.without_batch.pop(), now_ms)
        wait_ms = self._plan.take_due(now_ms)
        ready: list[tuple[Node, FetchSession]] = []
        for node_id, session in list(self._plan.sessions.items()):
            if node_id in self.asked_bytes:
                continue
            node = self._metadata.snapshot.nodes.get(node_id)
            if not session.wanted and node is None:
                del self._plan.sessions[node_id]  # the node has left the cluster
            elif not session.wanted or self._plan.awaits_application(node_id):
                continue
            elif node is None:
                self._metadata.request_update()
            elif self._client.ready(node, now_ms):
                ready.append((node, session))
            else:
                delay_ms = self._client.connections.poll_delay_ms(node, now_ms)
                wait_ms = min(wait_ms, max(delay_ms, 1))
        self._buffer.is_short = False
        for index, (node, session) in enumerate(ready):
            self._send(node, session, len(ready) - index, now_ms)
        return wait_ms

    def send_to(self, node_id: int, now_ms: int) -> bool:
        """Send the next fetch to one broker; no Python code runs.

        Args:
            node_id: The node id of a broker without a fetch in flight.
            now_ms: Monotonic time.

        Returns:
            False, without a change, if `send` must be called: the broker is not ready, the
            partition of the last response waits for a retry or is now fetched from another broker,
            another fetch waits for memory, or the fetch names several partitions.
        """
        if self.has_left or self.without_batch or self._buffer.is_short:
            return False
        session = self._plan.sessions.get(node_id)
        if session is None or not session.wanted or self._plan.awaits_application(node_id):
            return True
        node = self._metadata.snapshot.nodes.get(node_id)
        if (
            node is None
            or node_id in self.asked_bytes
            or not session.is_next_lone  # the tables run Python code
            or not self._client.is_ready(node_id, now_ms)
        ):
            return False
        self._send(node, session, 1, now_ms)
        return True

    def close_sessions(self, now_ms: int) -> None:
        """Close the sessions of all brokers without a fetch in flight."""
        for node_id, session in self._plan.sessions.items():
            part = session.closing_request()
            if part is not None and node_id not in self.asked_bytes:
                self._client.send(closing_fetch(self._terms, node_id, part), now_ms)

    def _send(self, node: Node, session: FetchSession, shares: int, now_ms: int) -> None:
        terms, buffer = self._terms, self._buffer
        asked_bytes = sum(self.asked_bytes.values()) if self.asked_bytes else 0
        free_bytes = buffer.free_bytes() - asked_bytes
        if free_bytes < _LEAST_BYTES:
            buffer.is_short = True  # before the last look, so that no freed block is missed
            buffer.take_freed()
            free_bytes = buffer.free_bytes() - asked_bytes
        if free_bytes < _LEAST_BYTES:
            if buffer.held_bytes or asked_bytes:
                return  # a freed block or a response causes the next turn
            free_bytes = buffer.capacity_bytes
        most_bytes = terms.bytes_max
        bytes_max = min(most_bytes, max(_LEAST_BYTES, free_bytes // shares))
        self.asked_bytes[node.node_id] = bytes_max
        versions = IDS_VERSIONS if session.goes_by_ids else NAMES_VERSIONS
        part = session.next_request()
        request = FetchRequest(
            node.node_id, session, part, bytes_max, versions, terms, self._on_fetched
        )
        self._client.send(request, now_ms)

    def _complete(self, request: FetchRequest, outcome: Outcome) -> None:
        session, asked = request.session, request.asked
        self.asked_bytes.pop(outcome.node_id, None)
        if outcome.body is None:
            assert outcome.error is not None  # noqa: S101 - an outcome has one or the other
            self._fail_all(outcome, session, asked, outcome.error)
            return
        if isinstance(outcome.body, LoneFetch):
            self._take_lone(session, asked, outcome)
            return
        if (code := outcome.body["error_code"]) in LOST_CODES:
            session.forget()
            return
        if code:
            error = error_for(code, f"a fetch from node {outcome.node_id}")
            self._fail_all(outcome, session, asked, error)
            return
        self.counts.note(outcome.latency_ms)
        session.note_response(outcome.body["session_id"])
        names = session.names_by_id if outcome.version >= IDS_FIRST_VERSION else None
        hints = leader_hints(outcome.body, names)
        if hints:
            self._metadata.apply_leader_hints(hints, sound_nodes(outcome.body))
        self._take(outcome, asked, names)

    def _fail_all(
        self,
        outcome: Outcome,
        session: FetchSession,
        asked: dict[TopicPartition, Wanted],
        error: KprodError,
    ) -> None:
        """Fetch the partitions of a request again, in a new session.

        An exception may have ended the processing of a response. Each partition then continues
        behind its last block that was passed. Only `send` knows when: `send_to` must return False.
        """
        self.has_left = True
        session.note_failure()
        self._metadata.request_update()
        for wanted in asked.values():
            self._replicas.forget(wanted.partition.key)
            if wanted.partition.number != DROPPED:
                self._fail(wanted.partition, error, outcome.now_ms)

    def _take_lone(
        self, session: FetchSession, asked: dict[TopicPartition, Wanted], outcome: Outcome
    ) -> None:
        """Process a response without errors, with records of one partition or of none."""
        answer: LoneFetch = outcome.body
        self.has_left = False
        self.counts.note(outcome.latency_ms)
        names = session.names_by_id
        session.note_response(answer.session_id)
        topic: Any = answer.topic
        if topic is None:
            return
        by_id = outcome.version >= IDS_FIRST_VERSION
        name: Any = names.get(topic) if by_id else topic
        wanted = wanted_in(asked, name, answer.partition)
        if wanted is None or (by_id and wanted.topic_id.int != topic) or not wanted.is_awaited():
            return
        partition = wanted.partition
        self._listener.works(partition)
        partition.note_fetched(
            answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
        )
        records = answer.records
        if records is None:
            return
        is_small = len(records) <= SMALL_BYTES
        self.lone_node_id = outcome.node_id if is_small else NO_NODE
        memory = ResponseMemory(len(records))
        block = self._block(wanted, records, (), memory)
        if block is not None:
            self._add([block], memory, outcome.now_ms)
        self.has_left = not self._plan.is_wanted_from(outcome.node_id, partition.key)

    def _take(
        self, outcome: Outcome, asked: dict[TopicPartition, Wanted], names: dict[int, str] | None
    ) -> None:
        """Process each partition of a response and add its records to the buffer."""
        assert outcome.body is not None  # noqa: S101 - the caller has checked
        memory = ResponseMemory(0)
        blocks: dict[AssignedPartition, FetchedBlock] = {}
        for topic in outcome.body["responses"]:
            name = topic["topic"] if names is None else names.get(topic["topic_id"].int, "")
            for answer in topic["partitions"]:
                wanted = wanted_in(asked, name, answer["partition_index"])
                if wanted is None or (names and wanted.topic_id.int != topic["topic_id"].int):
                    continue  # not requested
                memory.size_bytes += len(answer["records"] or b"")
                if not wanted.is_awaited() or wanted.partition in blocks:
                    continue
                block = self._look_at(wanted, answer, outcome, memory)
                if block is not None:
                    blocks[block.partition] = block
        if blocks:
            self.lone_node_id = NO_NODE
            self._add(list(blocks.values()), memory, outcome.now_ms)

    def _add(self, blocks: list[FetchedBlock], memory: ResponseMemory, now_ms: int) -> None:
        """Pass blocks to the polling thread, and decide what to fetch next.

        Until a block is passed, its partition stays where it is: see `_fail_all`.
        """
        added_bytes = memory.in_use_bytes
        self._buffer.add(blocks, memory)
        self.counts.bytes_total += added_bytes
        for block in blocks:
            if block.next_offset == block.offset:
                block.partition.move_to(State.HALTED)  # decoding fails; no position follows
        for block in blocks:
            self._plan.consider(block.partition, now_ms)

    def _look_at(
        self, wanted: Wanted, answer: dict[str, Any], outcome: Outcome, memory: ResponseMemory
    ) -> FetchedBlock | None:
        partition, now_ms = wanted.partition, outcome.now_ms
        if answer["error_code"]:
            self._take_code(partition, answer["error_code"], outcome)
            return None
        self._listener.works(partition)
        partition.note_fetched(
            answer["high_watermark"], answer["last_stable_offset"], answer["log_start_offset"]
        )
        diverging = answer["diverging_epoch"]
        if diverging and diverging["end_offset"] >= 0:
            self._listener.truncated(partition, diverging["end_offset"], diverging["epoch"])
            self._plan.consider(partition, now_ms)
            return None
        replica_id = answer["preferred_read_replica"]
        if replica_id >= 0 and not answer["records"]:
            self._replicas.prefer(partition.key, replica_id, now_ms)
            self._plan.consider(partition, now_ms)
            return None
        records = answer["records"]
        if not records:
            return None
        aborted = aborted_transactions(answer)
        return self._block(wanted, memoryview(records), aborted, memory)

    def _block(
        self,
        wanted: Wanted,
        records: memoryview,
        aborted: tuple[tuple[int, int], ...],
        memory: ResponseMemory,
    ) -> FetchedBlock | None:
        partition = wanted.partition
        end = last_batch(records)
        ends_the_log = end is not None and end.next_offset == NONE_FOLLOWS
        if end is None or (end.next_offset <= partition.fetch_offset and not ends_the_log):
            self.without_batch.append(wanted)
            return None
        partition.cut_off_count = 0
        offset = partition.fetch_offset
        next_offset = offset if ends_the_log else end.next_offset
        next_epoch = max(end.leader_epoch, -1)
        return FetchedBlock(
            partition, wanted.number, offset, records, aborted, memory, next_offset, next_epoch
        )

    def _take_cut_off(self, wanted: Wanted, now_ms: int) -> None:
        """Count a response without a whole batch; the broker must send one, and may do so later."""
        partition = wanted.partition
        if not wanted.is_awaited():
            return
        partition.cut_off_count += 1
        if partition.cut_off_count >= _CUT_OFF_MAX:
            error = no_whole_batch(partition.key, partition.fetch_offset, partition.cut_off_count)
            self._listener.failed(partition, error)
        self._plan.try_later(partition, now_ms)

    def _take_code(self, partition: AssignedPartition, code: int, outcome: Outcome) -> None:
        key, now_ms = partition.key, outcome.now_ms
        if code in _ASK_LEADER and self._replicas.forget(key):
            self._plan.consider(partition, now_ms)  # a follower may lag behind; ask the leader
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._listener.out_of_range(partition)
            self._plan.consider(partition, now_ms)  # else it would be fetched again at once
            return
        self._replicas.forget(key)
        where = f"topic {key.topic!r}, partition {key.partition}, offset {partition.fetch_offset}"
        who = self._metadata.principal
        error = denial_or_error(code, "READ", key.topic, principal=who, message=where)
        if contradicts_metadata(error):
            self._metadata.request_update()
        self._fail(partition, error, now_ms)

    def _fail(self, partition: AssignedPartition, error: KprodError, now_ms: int) -> None:
        if not isinstance(error, Disconnected | RequestTimeout) and not error.retriable:
            self._listener.failed(partition, error)
        self._plan.try_later(partition, now_ms)
