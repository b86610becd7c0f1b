"""What an answer to a Produce request means for each batch: done, again, or failed.

Persistence. A batch may be in the log if an attempt of it was written even in part and not
answered, or was answered with a code that leaves it open. That never goes back: it decides whether
a failure says POSSIBLY_PERSISTED, and whether the batch may ever get another sequence.

Order. Of an idempotent partition only the oldest batch is settled. What is answered for a batch
behind one that must go again is noted in its persistence, and asked again in its turn: so callbacks
run in the order of sending, and nothing behind a gap counts as sent.

Thread-safety: the sender's.
Source: Kafka Sender.completeBatch and TransactionManager.canRetry (clients 4.3.1), KIP-467,
KIP-951; kprod's departures 2, 4, 5 and 18.
"""

import logging
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kprod.cluster.backoff import ExponentialBackoff
from kprod.cluster.metadata import Metadata
from kprod.cluster.snapshot import LeaderHint
from kprod.config import SenderSettings
from kprod.errors import (
    BrokerError,
    DeliveryTimeout,
    Disconnected,
    KprodError,
    Purged,
    UnknownPartition,
)
from kprod.metrics.recorder import Recorder
from kprod.model import Node
from kprod.network.request import Outcome
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch, own_copy
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.split import split
from kprod.producer.transaction.manager import TransactionManager
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.timer.timer import Timer, TimerTask

_logger = logging.getLogger(__name__)

MAYBE_PERSISTED_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Answers after which the batch may be in the log all the same (departure 18; KAFKA-13574)."""

TAKEN_CODES = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
"""Answers that say that the batch is in the log."""

FATAL_CODES = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Answers after which an idempotent producer cannot go on."""

SEQUENCE_CODES = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
KNOWN_CODES = frozenset(ErrorCode)
PRODUCE_VERSION_BY_ID = 13  # the first that names topics by id (KIP-516)


class Delivery:
    """Settles batches by what became of their requests."""

    __slots__ = (
        "_accumulator",
        "_backoff",
        "_identity",
        "_metadata",
        "_recorder",
        "_settings",
        "_source",
        "_timer",
    )

    def __init__(  # noqa: PLR0913 - the collaborators of one answer
        self,
        settings: SenderSettings,
        *,
        accumulator: RecordAccumulator,
        identity: TransactionManager,
        metadata: Metadata,
        timer: Timer,
        source: random.Random,
        recorder: Recorder,
    ) -> None:
        """Begin.

        Args:
            settings: Retries and back-off.
            accumulator: Holds the batches.
            identity: Of the producer.
            metadata: Told of new leaders.
            timer: The sender's, for back-off.
            source: Draws each attempt's jitter, once.
            recorder: Told of answers, retries and failures.
        """
        self._settings = settings
        self._accumulator = accumulator
        self._identity = identity
        self._metadata = metadata
        self._timer = timer
        self._source = source
        self._recorder = recorder
        self._backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms
        )

    def complete(
        self, batches: Sequence[ProducerBatch], topic_names: Mapping[Any, str], outcome: Outcome
    ) -> None:
        """Settle the batches of a request.

        Args:
            batches: What the request carried, at most one of a partition.
            topic_names: Names by topic id, as they were when the request was made.
            outcome: Of the request.
        """
        answers: Mapping[tuple[str | None, int], Mapping[str, Any]] = {}
        if outcome.body is not None:
            throttle_ms = int(outcome.body.get("throttle_time_ms", 0))
            self._recorder.answered(outcome.node_id, outcome.latency_ms, throttle_ms)
            try:
                answers = _answers_of(outcome.body, topic_names, outcome.version)
                self._take_leader_hints(answers, outcome.body)
            except Exception:  # each batch must be concluded all the same
                _logger.exception("A Produce answer of node %d cannot be used", outcome.node_id)
        for batch in batches:
            try:
                self._conclude(batch, answers, outcome)
            except Exception as error:
                _logger.exception("The answer for %d records cannot be used", batch.record_count)
                self._bungle(batch, error)
            finally:
                batch.builder.chain.release()
        for batch in batches:
            if batch.queue.is_gone:
                self.fail_gone(batch.queue)

    def give_up(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a drained batch that could not be made into bytes; it was never written.

        Args:
            batch: Counted as sent by its queue.
            cause: What its codec raised, or MemoryError.
        """
        _logger.error("A batch for %s could not be encoded", batch.queue.topic, exc_info=cause)
        self._end_attempt(batch)
        error = KprodError(f"{batch.record_count} records could not be encoded: {cause!r}")
        error.__cause__ = cause
        self._fail(batch, error)

    def purge(self) -> int:
        """Fail every record that is certainly not in the log and not on its way.

        Returns:
            How many records.
        """
        count = 0
        for queue in self._accumulator.queues():
            for batch in list(queue.batches):
                if batch.in_flight or batch.maybe_persisted or batch.is_done:
                    continue
                self._accumulator.retire(batch)
                count += batch.record_count
                self._fail(batch, Purged("the record was purged before it was sent"))
        return count

    def fail_gone(self, queue: PartitionQueue) -> None:
        """End what waits for a partition that does not exist any more.

        What is in flight is awaited first: its answer decides, and the others follow in order.
        """
        if queue.in_flight_count:
            return
        for batch in list(queue.batches):
            self._fail(batch, _gone_error(queue))

    def expire(self, batch: ProducerBatch) -> None:
        """End a batch whose delivery deadline has passed, in flight or not."""
        queue = batch.queue
        if batch not in queue.batches:
            return
        while not batch.is_done and queue.batches and queue.batches[0] is not batch:
            self._expire(queue.batches[0])  # not younger: its deadline is this very millisecond
        if not batch.is_done:
            self._expire(batch)

    def _expire(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        waited = f"within delivery_timeout_ms={self._settings.delivery_timeout_ms}"
        leader = self._metadata.snapshot.leader_of(batch.queue.topic, batch.queue.partition)
        reason = "is in flight" if batch.in_flight else f"was tried {batch.attempts} times"
        if leader is None:
            reason += f"; {self._why_leaderless(batch.queue)}"
        text = (
            f"{batch.record_count} records for {queue.topic} partition {queue.partition} were not"
            f" acknowledged {waited}: the batch {reason}"
        )
        if batch.in_flight:
            # Its bytes may still be read by a socket, and its fate is open: the partition sends
            # nothing until the request is answered or its connection is gone.
            batch.maybe_persisted = True
            queue.rewind_later()
        self._fail(batch, DeliveryTimeout(text))

    def _why_leaderless(self, queue: PartitionQueue) -> str:
        count = self._metadata.snapshot.partition_count(queue.topic)
        if count is not None and queue.partition >= count:
            return f"the topic has {count} partitions now, and no partition {queue.partition}"
        return f"the partition has no leader: {self._metadata.trouble(queue.topic)}"

    def _conclude(
        self,
        batch: ProducerBatch,
        answers: Mapping[tuple[str | None, int], Mapping[str, Any]],
        outcome: Outcome,
    ) -> None:
        if outcome.error is not None:
            self._unanswered(batch, outcome.error, was_written=outcome.was_written)
            return
        if outcome.body is None:
            self._succeed(batch, -1, -1)
            return
        answer = answers.get((batch.queue.topic, batch.queue.partition))
        if answer is None:
            # A partition that the answer leaves out was neither taken nor refused.
            error = Disconnected("the broker's answer does not mention the partition")
            self._unanswered(batch, error, was_written=True)
        else:
            self._settle(batch, answer)

    def _bungle(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a batch whose answer could not be dealt with, so that its partition goes on."""
        batch.maybe_persisted = True
        if batch.in_flight:
            self._end_attempt(batch)
        if not batch.is_done:
            error = KprodError(f"kprod failed on a broker's answer: {cause!r}")
            error.__cause__ = cause
            self._fail(batch, error)

    def _take_leader_hints(
        self, answers: Mapping[tuple[str | None, int], Mapping[str, Any]], body: Mapping[str, Any]
    ) -> None:
        hints = [
            LeaderHint(topic, index, leader["leader_id"], leader["leader_epoch"])
            for (topic, index), answer in answers.items()
            if topic is not None
            and answer["error_code"]
            and (leader := answer.get("current_leader"))
            and leader["leader_id"] >= 0
            and leader["leader_epoch"] >= 0
        ]
        if hints:
            endpoints = body.get("node_endpoints") or ()
            nodes = [Node(n["node_id"], n["host"], n["port"], n["rack"]) for n in endpoints]
            self._metadata.apply_leader_hints(hints, [node for node in nodes if node.is_sound])

    def _settle(self, batch: ProducerBatch, answer: Mapping[str, Any]) -> None:
        code = answer["error_code"]
        queue = batch.queue
        is_behind = batch.has_sequence and not batch.is_done and queue.batches[0] is not batch
        if is_behind and code not in FATAL_CODES:
            self._note_behind(batch, code)
            return
        if code == ErrorCode.NONE:
            self._succeed(batch, answer["base_offset"], _append_time_ms(batch, answer))
            return
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, -1, -1)
            return
        error = error_for(code, answer.get("error_message") or "")
        batch.maybe_persisted |= _leaves_open(code)
        if error.refresh_metadata:
            self._metadata.request_update()
        self._end_attempt(batch)
        if batch.is_done:
            return
        if code in FATAL_CODES and batch.has_sequence:
            self._identity.fail(error)  # the sender's next turn fails everything, in order
        elif code in SEQUENCE_CODES and batch.has_sequence:
            self._sequence_refused(batch, error)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            _logger.info("Splitting %d records for %s", batch.record_count, batch.queue.topic)
            self._accumulator.replace(batch, split(batch))
            self._recorder.split()
        elif error.retriable:
            self._retry(batch, error)
        else:
            named = _record_errors(error, answer)
            self._fail(batch, _companions_error(error, named) if named else error, named)

    def _note_behind(self, batch: ProducerBatch, code: int) -> None:
        """Keep what an answer says of a batch that is not the oldest; it is asked again."""
        batch.maybe_persisted |= code in TAKEN_CODES or _leaves_open(code)
        self._end_attempt(batch)
        batch.queue.rewind_later()
        self._accumulator.mark_ready(batch.queue)

    def _sequence_refused(self, batch: ProducerBatch, error: BrokerError) -> None:
        """The oldest batch does not fit the broker's log: the partition's sequences are broken.

        It gets another sequence in the next epoch, if no batch up to the last of unknown fate
        stands in the way: those could come out of order, or twice, and so they fail.
        """
        queue = batch.queue
        doomed_count = queue.unknown_fate_count
        if doomed_count and not queue.in_flight_count:
            for doomed in [queue.batches[index] for index in range(doomed_count)]:
                self._fail(doomed, own_copy(error))
            return
        self._identity.want_bump(f"{error.name} for {queue.topic}-{queue.partition}")
        self._retry(batch, error)

    def _unanswered(self, batch: ProducerBatch, error: KprodError, *, was_written: bool) -> None:
        batch.maybe_persisted |= was_written
        if error.refresh_metadata:
            self._metadata.request_update()
        self._end_attempt(batch)
        if batch.is_done:
            return
        if error.retriable:
            self._retry(batch, error)
        else:
            self._fail(batch, own_copy(error))

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        queue = batch.queue
        if not queue.must_rewind:
            queue.may_pipeline = True
        self._end_attempt(batch)
        if not batch.is_done:
            batch.succeed(base_offset, log_append_time_ms)
            self._accumulator.forget(batch)
        self._accumulator.mark_ready(queue)

    def _end_attempt(self, batch: ProducerBatch) -> None:
        """The request that carried the batch is complete."""
        queue = batch.queue
        queue.answered(batch)
        if batch.is_done:
            # It expired in flight. Only now its partition's sequences are known to be broken, and
            # only now others have to stop for it.
            if batch.has_sequence:
                self._identity.want_bump(f"a batch of {queue.topic}-{queue.partition} expired")
            self._accumulator.mark_ready(queue)

    def _retry(self, batch: ProducerBatch, error: KprodError) -> None:
        queue = batch.queue
        queue.rewind_later()
        if queue.is_gone:
            self._fail(batch, _gone_error(queue))
            return
        if batch.attempts > self._settings.retries:
            self._fail(batch, own_copy(error))
            return
        _logger.debug("Sending %s-%d again: %s", queue.topic, queue.partition, error)
        self._recorder.retried(queue.topic, batch.record_count)
        leader = self._metadata.snapshot.leader_of(queue.topic, queue.partition)
        if leader is not None and leader.node_id != queue.sent_to:
            self._accumulator.mark_ready(queue)  # a new leader need not be spared (KIP-951)
            return
        queue.backoff_count += 1
        delay_ms = self._backoff.wait_ms(batch.attempts - 1, self._source)
        self._timer.add(delay_ms, TimerTask(partial(self._backoff_is_over, queue)))

    def _backoff_is_over(self, queue: PartitionQueue) -> None:
        queue.backoff_count -= 1
        self._accumulator.mark_ready(queue)

    def _fail(
        self,
        batch: ProducerBatch,
        error: KprodError,
        record_errors: dict[int, KprodError] | None = None,
    ) -> None:
        """End a batch for good; the sequences of those behind it cannot go on."""
        queue = batch.queue
        if batch.has_sequence and not batch.in_flight:
            self._identity.want_bump(f"a batch of {queue.topic}-{queue.partition} failed: {error}")
        self._accumulator.retire(batch)
        if batch.record_count:
            self._recorder.failed(queue.topic, batch.record_count)
        batch.fail(error, record_errors)
        self._accumulator.forget(batch)
        if batch.has_sequence and queue.in_flight_count:
            queue.rewind_later()
        self._accumulator.mark_ready(queue)


def _leaves_open(code: int) -> bool:
    """Whether a batch may be in the log in spite of an error.

    Nothing is known of a code that only a newer broker has; it counts as UNKNOWN_SERVER_ERROR.

    Args:
        code: Of the answer.

    Returns:
        True if the batch may be there.
    """
    return code in MAYBE_PERSISTED_CODES or code not in KNOWN_CODES


def _answers_of(
    body: Mapping[str, Any], topic_names: Mapping[Any, str], version: int
) -> dict[tuple[str | None, int], Mapping[str, Any]]:
    """The answers by topic and partition."""
    by_id = version >= PRODUCE_VERSION_BY_ID
    return {
        (topic_names.get(topic["topic_id"]) if by_id else topic["name"], answer["index"]): answer
        for topic in body["responses"]
        for answer in topic["partition_responses"]
    }


def _record_errors(error: BrokerError, answer: Mapping[str, Any]) -> dict[int, KprodError] | None:
    """Errors of the records that the broker names (KIP-467).

    One has the batch's code. Of several only one does, nobody says which: they are INVALID_RECORD.

    Args:
        error: The batch's.
        answer: For its partition.

    Returns:
        Errors by the record's index; None when the broker names none.
    """
    listed = answer.get("record_errors") or ()
    code = error.code if len(listed) == 1 else ErrorCode.INVALID_RECORD
    return {
        entry["batch_index"]: error_for(code, entry["batch_index_error_message"] or str(error))
        for entry in listed
    } or None


def _companions_error(error: BrokerError, named: Mapping[int, KprodError]) -> BrokerError:
    """What the sound records of a refused batch fail with: not the fault of others."""
    text = (
        f"nothing is wrong with this record, but its batch was refused ({error.name}) for"
        f" {len(named)} others, and a batch is written whole or not at all; send it again"
    )
    return error_for(ErrorCode.INVALID_RECORD, text)


def _gone_error(queue: PartitionQueue) -> KprodError:
    return UnknownPartition(
        f"partition {queue.partition} of {queue.topic!r} is gone: the topic was deleted and made"
        f" anew with {queue.head.partition_count} partitions"
    )


def _append_time_ms(batch: ProducerBatch, answer: Mapping[str, Any]) -> int:
    """When the broker stamped a batch; −1 if its records keep their own times."""
    # To a batch that it has already the broker answers with the greatest time in it, whoever
    # stamped it (Kafka UnifiedLog.append): after a retry that time says nothing.
    told_ms = int(answer["log_append_time_ms"])
    if batch.attempts > 1 and told_ms == batch.builder.max_timestamp_ms:
        return -1
    return told_ms
