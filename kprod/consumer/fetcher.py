# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Fetches records ahead of the application, within the memory limit.

Each broker has at most one fetch in flight, always in a session (`fetch_session`). A partition is
fetched while it is in state FETCHING, not paused, and has fewer than `AHEAD_MAX` waiting blocks. It
is examined only when one of these changes (`consider`): idle partitions cost nothing.

Memory. A request may ask for the free memory, minus the amounts of other requests. A broker may
respond with one larger batch; so nothing is requested while less than `_LEAST_BYTES` are free. If
nothing is buffered, however, a request is always sent; otherwise a batch larger than the whole
memory would never be read.

The next fetch offset is read from the batch headers, without decoding records. It follows the
batch's last offset, not the last record's, so gaps left by compaction are skipped.

Thread-safety: the I/O thread.
Source: Kafka Fetcher and AbstractFetch (clients 4.3.1); KIP-74, KIP-227, KIP-392, KIP-951.
"""

import random
from functools import partial
from typing import Any

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.config import FetchSettings
from kprod.consumer.batch_ends import last_batch
from kprod.consumer.fetch_buffer import AHEAD_MAX, FetchBuffer, FetchedBlock, ResponseMemory
from kprod.consumer.fetch_listener import FetchCounts, FetchListener
from kprod.consumer.fetch_request import (
    aborted_transactions,
    closing_fetch,
    fetch_bounds,
    fetch_fields,
    leader_hints,
    sound_nodes,
)
from kprod.consumer.fetch_session import (
    IDS_VERSIONS,
    LOST_CODES,
    NAMES_VERSIONS,
    FetchSession,
    Wanted,
)
from kprod.consumer.offset_lookup import OFFSET_MAX
from kprod.consumer.partition_texts import no_whole_batch
from kprod.consumer.position import AssignedPartition, State
from kprod.consumer.read_replica import ReadReplicas
from kprod.errors import Disconnected, KprodError, RequestTimeout
from kprod.model import Node, TopicPartition
from kprod.network.client import NetworkClient
from kprod.network.client_request import ClientRequest, Outcome
from kprod.protocol.api import ApiKey
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode, error_for

_LEAST_BYTES = 1_024  # brokers return whole batches even if less is requested
_CUT_OFF_MAX = 3  # consecutive responses with a part of a batch and nothing else
_LONG_MS = 60_000
_DROPPED = -1  # no start has this number
_IDS_FIRST_VERSION = 13
_ASK_LEADER = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE})


class Fetcher:
    """Fetches for one consumer; `counts` has its statistics."""

    def __init__(  # noqa: PLR0913 - the collaborators of a fetch
        self,
        settings: FetchSettings,
        client: NetworkClient,
        metadata: Metadata,
        *,
        buffer: FetchBuffer,
        replicas: ReadReplicas,
        backoff: ExponentialBackoff,
        rng: random.Random,
        listener: FetchListener,
    ) -> None:
        """Start with no partitions.

        Args:
            settings: Sizes and wait times.
            client: Sends the requests.
            metadata: Provides leaders, epochs and topic ids.
            buffer: Gets the records.
            replicas: Chooses the node to fetch from.
            backoff: Delay between attempts.
            rng: Random numbers for jitter.
            listener: Called for partitions that were fetched, truncated, out of range or failed.
        """
        self._settings = settings
        self._client = client
        self._metadata = metadata
        self._buffer = buffer
        self._replicas = replicas
        self._backoff = backoff
        self._rng = rng
        self._listener = listener
        self._sessions: dict[int, FetchSession] = {}
        self._node_of: dict[TopicPartition, int] = {}  # the node whose session has the partition
        self._asked_bytes: dict[int, int] = {}  # requested bytes of fetches in flight, by node
        self._put_off: dict[AssignedPartition, None] = {}
        share_bytes = settings.fetch_buffer_memory // AHEAD_MAX
        self._share_bytes = min(settings.max_partition_fetch_bytes, share_bytes)
        self.counts: FetchCounts = FetchCounts()

    def consider(self, partition: AssignedPartition, now_ms: int) -> None:
        """Start or stop fetching a partition, or change its node, according to its present state.

        Args:
            partition: A partition whose state has changed.
            now_ms: Monotonic time.
        """
        key = partition.key
        may_fetch = (
            partition.state is State.FETCHING
            and partition.number == partition.start.number
            and not partition.paused
            and partition.ahead_count < AHEAD_MAX
        )
        if may_fetch and partition.retry_at_ms > now_ms:
            self._put_off[partition] = None
            may_fetch = False
        node = self._replicas.node_of(key, now_ms) if may_fetch else None
        if may_fetch and node is None:
            self._metadata.request_update_for_topic(key.topic)  # calls `consider` again
        node_id = -1 if node is None else node.node_id
        if self._node_of.get(key, node_id) != node_id:
            self._leave(partition)
        if node is None:
            return
        snapshot = self._metadata.snapshot
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession()
        session.want(
            Wanted(
                partition,
                partition.number,
                topic_id=snapshot.topic_id_of(key.topic),
                leader_epoch=snapshot.leader_epoch_of(key.topic, key.partition),
                offset=partition.fetch_offset,
                last_epoch=partition.fetch_epoch,
                bytes_max=self._share_bytes,
            )
        )
        self._node_of[key] = node_id

    def drop(self, partition: AssignedPartition) -> None:
        """Stop fetching a partition that is no longer assigned.

        Args:
            partition: Any partition.
        """
        self._put_off.pop(partition, None)
        self._leave(partition)
        partition.number = _DROPPED  # responses of fetches in flight are ignored

    def _leave(self, partition: AssignedPartition) -> None:
        """Remove a partition from its session, unless it was assigned again since."""
        node_id = self._node_of.get(partition.key)
        if node_id is None:
            return
        session = self._sessions[node_id]
        wanted = session.wanted.get(partition.key)
        if wanted is not None and wanted.partition is partition:
            session.drop(partition.key)
            del self._node_of[partition.key]

    def send(self, now_ms: int) -> int:
        """Send a fetch to each broker that has partitions to fetch and no fetch in flight.

        Args:
            now_ms: Monotonic time.

        Returns:
            Milliseconds until the next attempt; connection events may come earlier.
        """
        wait_ms = self._take_put_off(now_ms)
        ready: list[tuple[Node, FetchSession]] = []
        for node_id, session in list(self._sessions.items()):
            if node_id in self._asked_bytes:
                continue
            node = self._metadata.snapshot.nodes.get(node_id)
            if not session.wanted and node is None:
                del self._sessions[node_id]  # the node has left the cluster
            elif not session.wanted:
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

    def close_sessions(self, now_ms: int) -> None:
        """Close the sessions of all brokers without a fetch in flight."""
        for node_id, session in self._sessions.items():
            fields = session.closing_request()
            if fields is not None and node_id not in self._asked_bytes:
                self._client.send(closing_fetch(self._settings, node_id, fields), now_ms)

    def _take_put_off(self, now_ms: int) -> int:
        wait_ms = _LONG_MS
        for partition in list(self._put_off):
            if partition.retry_at_ms <= now_ms:
                del self._put_off[partition]
                self.consider(partition, now_ms)
            else:
                wait_ms = min(wait_ms, partition.retry_at_ms - now_ms)
        return wait_ms

    def _send(self, node: Node, session: FetchSession, shares: int, now_ms: int) -> None:
        settings, buffer = self._settings, self._buffer
        asked_bytes = sum(self._asked_bytes.values()) if self._asked_bytes else 0
        free_bytes = buffer.free_bytes - asked_bytes
        if free_bytes < _LEAST_BYTES:
            buffer.is_short = True  # before the last look, so that no freed block is missed
            buffer.take_freed()
            free_bytes = buffer.free_bytes - asked_bytes
        if free_bytes < _LEAST_BYTES:
            if buffer.held_bytes or asked_bytes:
                return  # a freed block or a response causes the next turn
            free_bytes = buffer.capacity_bytes
        bytes_max = min(settings.fetch_max_bytes, max(_LEAST_BYTES, free_bytes // shares))
        self._asked_bytes[node.node_id] = bytes_max
        versions = IDS_VERSIONS if session.goes_by_ids else NAMES_VERSIONS
        body = fetch_fields(settings, bytes_max) | session.next_request()
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=ApiKey.FETCH,
                versions=versions,
                body=body,
                on_complete=partial(self._complete, session, session.asked),
                timeout_ms=settings.request_timeout_ms + settings.fetch_max_wait_ms,
                bounds=fetch_bounds(len(session.asked), reads_committed=settings.reads_committed),
            ),
            now_ms,
        )

    def _complete(
        self, session: FetchSession, asked: dict[TopicPartition, Wanted], outcome: Outcome
    ) -> None:
        self._asked_bytes.pop(outcome.node_id, None)
        if outcome.body is None:
            assert outcome.error is not None  # noqa: S101 - an outcome has one or the other
            self._fail_all(outcome, session, asked, outcome.error)
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
        names = session.names_by_id if outcome.version >= _IDS_FIRST_VERSION else None
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
        session.note_failure()
        self._metadata.request_update()
        for wanted in asked.values():
            self._replicas.forget(wanted.partition.key)
            if wanted.partition.number != _DROPPED:
                self._fail(wanted.partition, error, outcome.now_ms)

    def _take(
        self, outcome: Outcome, asked: dict[TopicPartition, Wanted], names: dict[int, str] | None
    ) -> None:
        """Process each partition of a response and add its records to the buffer."""
        assert outcome.body is not None  # noqa: S101 - the caller has checked
        memory = ResponseMemory(0)
        blocks: list[FetchedBlock] = []
        for topic in outcome.body["responses"]:
            name = topic["topic"] if names is None else names.get(topic["topic_id"].int, "")
            for answer in topic["partitions"]:
                wanted = asked.get(TopicPartition(name, answer["partition_index"]))
                if wanted is None or (names and wanted.topic_id != topic["topic_id"]):
                    continue  # not requested
                partition = wanted.partition
                memory.size_bytes += len(answer["records"] or b"")
                if (
                    partition.number != wanted.number
                    or partition.fetch_offset != wanted.offset
                    or partition.state is not State.FETCHING
                ):
                    continue  # the position changed, or the response has it twice
                block = self._look_at(wanted, answer, outcome, memory)
                if block is not None:
                    blocks.append(block)
        if blocks:
            self.counts.bytes_total += memory.in_use_bytes
            self._buffer.add(blocks, memory)
            for block in blocks:
                self.consider(block.partition, outcome.now_ms)

    def _look_at(
        self, wanted: Wanted, answer: dict[str, Any], outcome: Outcome, memory: ResponseMemory
    ) -> FetchedBlock | None:
        partition, now_ms = wanted.partition, outcome.now_ms
        if answer["error_code"]:
            self._take_code(partition, answer["error_code"], outcome)
            return None
        partition.failures = 0
        self._listener.works(partition)
        partition.high_watermark = answer["high_watermark"]
        partition.last_stable_offset = answer["last_stable_offset"]
        partition.log_start_offset = answer["log_start_offset"]
        diverging = answer["diverging_epoch"]
        if diverging and diverging["end_offset"] >= 0:
            self._listener.truncated(partition, diverging["end_offset"], diverging["epoch"])
            self.consider(partition, now_ms)
            return None
        replica_id = answer["preferred_read_replica"]
        if replica_id >= 0 and not answer["records"]:
            self._replicas.prefer(partition.key, replica_id, now_ms)
            self.consider(partition, now_ms)
            return None
        return self._block(wanted, answer, now_ms, memory) if answer["records"] else None

    def _block(
        self, wanted: Wanted, answer: dict[str, Any], now_ms: int, memory: ResponseMemory
    ) -> FetchedBlock | None:
        partition, records = wanted.partition, memoryview(answer["records"])
        end = last_batch(records)
        if end is None or end.next_offset <= partition.fetch_offset:
            self._take_cut_off(partition, now_ms)
            return None
        partition.cut_off_count = 0
        block = FetchedBlock(
            partition=partition,
            number=wanted.number,
            offset=partition.fetch_offset,
            records=records,
            aborted=aborted_transactions(answer),
            memory=memory,
        )
        if end.next_offset > OFFSET_MAX:
            partition.move_to(State.HALTED)  # decoding raises an error; the position cannot advance
        else:
            partition.fetch_from(end.next_offset, max(end.leader_epoch, -1))
        return block

    def _take_cut_off(self, partition: AssignedPartition, now_ms: int) -> None:
        """Count a response without a whole batch; the broker must send one, and may do so later."""
        partition.cut_off_count += 1
        if partition.cut_off_count >= _CUT_OFF_MAX:
            error = no_whole_batch(partition.key, partition.fetch_offset, partition.cut_off_count)
            self._listener.failed(partition, error)
        self._try_later(partition, now_ms)

    def _take_code(self, partition: AssignedPartition, code: int, outcome: Outcome) -> None:
        key, now_ms = partition.key, outcome.now_ms
        if code in _ASK_LEADER and self._replicas.forget(key):
            self.consider(partition, now_ms)  # a follower may lag behind; ask the leader
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._listener.out_of_range(partition)
            self.consider(partition, now_ms)  # else it would be fetched again at once
            return
        self._replicas.forget(key)
        where = f"topic {key.topic!r}, partition {key.partition}, offset {partition.fetch_offset}"
        who = self._metadata.principal
        error = denial_or_error(code, "READ", key.topic, principal=who, message=where)
        if error.refresh_metadata:
            self._metadata.request_update()
        self._fail(partition, error, now_ms)

    def _fail(self, partition: AssignedPartition, error: KprodError, now_ms: int) -> None:
        if not isinstance(error, Disconnected | RequestTimeout) and not error.retriable:
            self._listener.failed(partition, error)
        self._try_later(partition, now_ms)

    def _try_later(self, partition: AssignedPartition, now_ms: int) -> None:
        wait_ms = self._backoff.wait_ms(partition.failures, self._rng)
        partition.retry_at_ms = now_ms + max(1, wait_ms)
        partition.failures += 1
        self._leave(partition)
        self._put_off[partition] = None
