# cython: annotation_typing=False, nonecheck=True
"""Runs the sender's turns: select, read, advance timers, drain, write.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

The sockets are read before any deadline is checked: a response that arrived while a callback ran
is not late. `run_once` begins such a turn after its sleep, and ends with the sleep of the next one.

Everything it owns (connections, metadata, timers, sequences, the drained part of queues) belongs to
one thread, which loops around `run_once`. Its work is proportional to batches, never to records.

Requests are built as late as possible: a batch is drained only when its leader can accept a
request, so that batches grow meanwhile.

Thread-safety: one thread, except `wakeup`.
Source: Kafka Sender.runOnce (clients 4.3.1); KAFKA-17862 for expiry before drain.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kprod._core.clock import SystemClock
from kprod._core.send.send_path import SendPath
from kprod.cluster.leader_changes import leader_changes
from kprod.cluster.metadata import Metadata
from kprod.config import CompressionSettings, SenderSettings
from kprod.errors import KprodError, own_copy
from kprod.metrics.recorder import Recorder
from kprod.metrics.state_log import Event, StateLog
from kprod.model import CODECS
from kprod.network.client import NetworkClient
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch
from kprod.producer.batch_compression.parallel_compressor import ParallelCompressor
from kprod.producer.delivery import Delivery
from kprod.producer.produce_request import ProduceRequest, ProduceTerms
from kprod.producer.producer_id_requests import ProducerIdRequests
from kprod.producer.retry_timer import RetryTimer
from kprod.producer.transaction.manager import TransactionManager
from kprod.protocol.produce_frame import PartitionRecords, TopicRecords
from kprod.timer.timer import Timer

if TYPE_CHECKING:
    from kprod.protocol.produce_frame import Piece

    Errors = Mapping[ProducerBatch, Exception]

_NO_ERRORS: "Errors" = {}
PRODUCE_VERSION_MIN = 3  # the first version with record batches (V2)
POLL_MAX_MS = 60_000  # nothing depends on it; limits the cost of a lost wakeup


class Sender:
    """Sends the accumulator's ready batches, and settles them.

    Attributes:
        lone_count: Number of the newest requests in a row that carried a single record each, while
            their node had no other request in flight.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of one turn
        self,
        settings: SenderSettings,
        compression: CompressionSettings,
        *,
        compressor: ParallelCompressor | None,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        delivery: Delivery,
        transaction_manager: TransactionManager,
        metadata: Metadata,
        timer: Timer,
        clock: SystemClock,
        rng: random.Random,
        path: SendPath,
        reject: Callable[[KprodError], object],
        recorder: Recorder,
        state_log: StateLog,
    ) -> None:
        """Keep the parts that a turn uses.

        Args:
            settings: Request settings.
            compression: Compression settings.
            compressor: Compresses batches; None without a codec.
            accumulator: Holds the batches.
            client: The network client.
            delivery: Settles batches.
            transaction_manager: Assigns sequences.
            metadata: Provides the leaders of partitions.
            timer: Timer for all deadlines.
            clock: The clock; read again after callbacks or compression, which may take long.
            rng: Random numbers for jitter.
            path: The send path; its `sender_sleeps` tells sending threads whether to wake the
                sender.
            reject: Called with the error after which no record can be sent.
            recorder: Called with requests and failed batches.
            state_log: Logs changes of leaders.
        """
        self._request_bytes_max = settings.max_request_size
        self._attributes = int(compression.compression_type)
        self.compressor = compressor
        first = max(PRODUCE_VERSION_MIN, CODECS[self._attributes].first_produce_version)
        self._terms = ProduceTerms(
            delivery, acks=settings.acks, timeout_ms=settings.request_timeout_ms, first=first
        )
        self._accumulator = accumulator
        self._client = client
        self._delivery = delivery
        self._transaction_manager = transaction_manager
        self._may_send = transaction_manager.may_send
        self._metadata = metadata
        self._timer = timer
        self._clock = clock
        self._path = path
        self._reject = reject
        self._recorder = recorder
        self._state_log = state_log
        self._snapshot = metadata.snapshot  # the snapshot whose leaders were logged
        self._producer_id_requests = ProducerIdRequests(
            transaction_manager,
            accumulator=accumulator,
            client=client,
            timer=RetryTimer(settings, timer=timer, clock=clock, rng=rng),
            principal=metadata.principal,
        )
        self._calls: deque[Callable[[], object]] = deque()
        self.lone_count: int = 0

    def call_soon(self, call: Callable[[], object]) -> None:
        """Make the sender call a function at the start of its next turn; any thread.

        Args:
            call: A function that must not raise.
        """
        self._calls.append(call)

    def make_calls(self) -> None:
        """Call the functions of `call_soon`."""
        while self._calls:
            self._calls.popleft()()

    def run_once(self, now_ms: int) -> None:
        """Run one turn: run due tasks, send ready batches, sleep, read responses.

        Args:
            now_ms: Monotonic time, not below an earlier turn's.
        """
        if self._calls:
            self.make_calls()
        accumulator = self._accumulator
        if accumulator.has_news():
            accumulator.take_inbox(now_ms)
        is_late = self._timer.is_due(self._clock.now_ms())
        if is_late:
            self._client.catch_up()
            if accumulator.has_news():
                # Responses that arrived while callbacks ran may be due as well, and no other event
                # reports them.
                accumulator.take_inbox(self._clock.now_ms())
        now_ms = max(now_ms, self._clock.now_ms())
        transaction_manager = self._transaction_manager
        if transaction_manager.fatal_error is not None:
            self._reject(transaction_manager.fatal_error)
            self.abort(transaction_manager.fatal_error)
        wait_ms = POLL_MAX_MS
        if accumulator.wants_routes():
            self._follow_metadata()  # first: an epoch may wait for the batches that this fails
        if transaction_manager.wants_attention():
            wait_ms = min(wait_ms, self._producer_id_requests.advance(now_ms))
        self._ask_for_leaders(now_ms)
        ready_nodes = accumulator.ready_nodes()
        if ready_nodes:
            wait_ms = min(wait_ms, self._drain(ready_nodes, now_ms))
        accumulator.sticky.forget_nodes_but(ready_nodes)
        self._path.sender_sleeps = True
        # Catching up may have consumed a wakeup; the next turn handles its cause.
        if is_late or accumulator.has_news() or self._calls:
            wait_ms = 0
        self._client.poll(wait_ms, now_ms)
        self._path.sender_sleeps = False

    def _drain(self, ready_nodes: Sequence[int], now_ms: int) -> int:
        """Send to these nodes, unless a deadline has passed during callbacks.

        Returns:
            Milliseconds until a ready node's state changes without an event.
        """
        now_ms = max(now_ms, self._clock.now_ms())
        if self._timer.is_due(now_ms):
            return 0  # the next turn expires overdue batches, and then sends
        self.send_ready(ready_nodes, now_ms)
        return self._wait_ms(now_ms)

    def abort(self, error: KprodError) -> None:
        """Fail all unfinished batches.

        Args:
            error: The reason; each batch gets a copy with its own persistence, unless it has a
                verdict.
        """

        def fail(batch: ProducerBatch) -> None:
            if batch.record_count and not batch.is_done:
                self._recorder.failed(batch.queue.topic, batch.record_count)
            batch.fail(batch.verdict or own_copy(error))

        self._accumulator.abort(fail)

    def close(self) -> None:
        """Close all connections, which releases requests, and end the threads that compress."""
        try:
            self._client.close()
        finally:
            if self.compressor is not None:
                self.compressor.close()

    def close_after_fork(self) -> None:
        """Let the threads that compress end, in a forked child."""
        if self.compressor is not None:
            self.compressor.close_after_fork()

    @property
    def is_idle(self) -> bool:
        """Whether no batch is left."""
        return not self._accumulator.has_undrained

    def _wait_ms(self, now_ms: int) -> int:
        """Return how long to wait until a ready node's state changes without an event."""
        ready_nodes = self._accumulator.ready_nodes()
        if not ready_nodes:
            return POLL_MAX_MS
        nodes = self._metadata.snapshot.nodes
        waits = [
            self._client.connections.poll_delay_ms(nodes[node_id], now_ms)
            for node_id in ready_nodes
            if node_id in nodes
        ]
        return max(min(waits, default=POLL_MAX_MS), 0)

    def _follow_metadata(self) -> None:
        if self._metadata.snapshot is not self._snapshot:
            self._note_leaders()
        for queue in self._accumulator.route():
            self._delivery.fail_gone(queue)

    def _ask_for_leaders(self, now_ms: int) -> None:
        for topic in self._accumulator.leaderless_topics:
            self._metadata.add_topic(topic, now_ms)
            self._metadata.request_update_for_topic(topic)

    def _note_leaders(self) -> None:
        before, self._snapshot = self._snapshot, self._metadata.snapshot
        for change in leader_changes(before, self._snapshot):
            self._state_log.note(Event.LEADER_CHANGED, **change._asdict())

    def has_more_to_do(self, now_ms: int) -> bool:
        """Whether a turn would do more than send the inbox's batches and sleep."""
        accumulator, transaction_manager = self._accumulator, self._transaction_manager
        return (
            bool(self._calls)
            or accumulator.wants_sweep
            or accumulator.wants_routes()
            or transaction_manager.fatal_error is not None
            or transaction_manager.wants_attention()
            or self._metadata.update_due_in_ms(now_ms) == 0
        )

    def is_topic_noted(self, topic: str) -> bool:
        """Whether a topic has its counters and is refreshed in the metadata."""
        return self._recorder.has_counters(topic) and self._metadata.is_in_use(topic)

    def send_ready(self, ready_nodes: Sequence[int], now_ms: int) -> None:
        """Send the batches that may be sent now.

        Args:
            ready_nodes: The accumulator's list of nodes.
            now_ms: Monotonic time.
        """
        nodes = self._metadata.snapshot.nodes
        for node_id in ready_nodes:
            node = nodes.get(node_id)
            if node is None:
                continue
            takes = self._client.ready(node, now_ms)
            if takes:
                self._accumulator.sticky.note_taking(node_id)
            else:
                self._accumulator.sticky.note_held(node_id, now_ms)
            while takes:
                batches = self._accumulator.drain(node_id, self._request_bytes_max, self._may_send)
                if not batches:
                    break
                self._send(node_id, batches, now_ms)
                takes = self._client.ready(node, now_ms)

    def _send(self, node_id: int, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        topics: dict[str, list[PartitionRecords]] = {}
        encoded: list[ProducerBatch] = []
        errors = _NO_ERRORS if self.compressor is None else self._compress(node_id, batches)
        for batch in batches:
            try:
                self._transaction_manager.assign(batch)
                # a retry sends identical bytes
                pieces = batch.pieces or self._encode(batch, errors)
                queue = batch.queue
                records = (queue.partition, pieces, batch.builder.encoded_bytes)
                topics.setdefault(queue.topic, []).append(records)
            except Exception as error:  # noqa: BLE001 - a codec's; the other batches continue
                self._give_up_later(batch, error)
                continue
            batch.builder.chain.hold()
            encoded.append(batch)
        if self.compressor is not None:
            # compression does not count against the request's timeout
            now_ms = max(now_ms, self._clock.now_ms())
        if encoded:
            is_single = len(encoded) == 1 and encoded[0].record_count == 1
            is_lone = is_single and self._client.idle_connection(node_id, now_ms) is not None
            self.lone_count = self.lone_count + 1 if is_lone else 0
            self._send_encoded(node_id, encoded, topics, now_ms)
            self._recorder.produced(encoded, now_ms)

    def _encode(self, batch: ProducerBatch, errors: "Errors") -> "list[Piece]":
        """Close a batch and return its pieces, or raise the error of its compression."""
        if errors and batch in errors:
            raise errors[batch]
        return batch.close(self._attributes)

    def _compress(self, node_id: int, batches: Sequence[ProducerBatch]) -> "Errors":
        """Compress the batches of a request, and where threads have no work the next ones.

        Returns:
            The errors of those that could not be compressed. One that is not in the request is
            tried again when it is sent.
        """
        compressor = self.compressor
        assert compressor is not None  # noqa: S101 - there is a codec
        unpacked = [batch for batch in batches if batch.is_unpacked]
        if not unpacked:
            return _NO_ERRORS
        try:
            spare_count = compressor.spare_threads(len(unpacked))
            if spare_count:
                unpacked += self._accumulator.next_to_pack(node_id, spare_count)
            return compressor.pack(unpacked)
        except Exception as error:  # noqa: BLE001 - MemoryError: these fail, the sender continues
            return dict.fromkeys([batch for batch in batches if batch.is_unpacked], error)

    def _give_up_later(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a drained batch that is not in any request, in the sender's next turn.

        Deferred: callbacks must run on the sender's thread, and this may be an application's
        (`DirectPath`). Nothing follows until then: the batch has a sequence that will be missing.
        """
        batch.queue.rewind_later()
        self.call_soon(partial(self._delivery.give_up, batch, cause))

    def _send_encoded(
        self,
        node_id: int,
        batches: Sequence[ProducerBatch],
        topics: Mapping[str, Sequence[PartitionRecords]],
        now_ms: int,
    ) -> None:
        topic_id_of = self._metadata.snapshot.topic_id_of
        try:
            named = [
                TopicRecords(name, topic_id_of(name), records) for name, records in topics.items()
            ]
            call = ProduceRequest(node_id, batches, named, self._terms)
        except Exception as error:  # noqa: BLE001 - MemoryError: nothing is sent, nothing is lost
            for batch in batches:
                batch.builder.chain.release()
                self._give_up_later(batch, error)
            return
        self._client.send(call, now_ms)
        for topic in topics:
            self._metadata.add_topic(topic, now_ms)
