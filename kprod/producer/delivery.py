# cython: annotation_typing=False, nonecheck=True
"""Applies a Produce response to each batch: done, retry, or failed.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

Persistence. A batch may be in the log if an attempt was written, even partly, and got no response,
or one whose error code leaves it open. This is never reset: it decides whether a failure says
POSSIBLY_PERSISTED, and whether the batch may ever get another sequence.

Order. In an idempotent partition only the oldest batch is settled. If a response is for a batch
after one that must be retried, it only updates the batch's persistence, and the batch is sent again
in order; a final failure is stored as its verdict, and it fails in order. So callbacks run in the
order of sending, and nothing after a gap counts as sent.

Thread-safety: the sender.
Source: Kafka Sender.completeBatch and TransactionManager.canRetry (clients 4.3.1), KIP-467,
KIP-951; kprod's departures 2, 4, 5 and 18.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kprod._core.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config import SenderSettings
from kprod.errors import BrokerError, Disconnected, KprodError, Purged, own_copy
from kprod.guarded_log import guarded_logger
from kprod.metrics.recorder import Recorder
from kprod.network.client_request import Outcome
from kprod.network.throttle import told_throttle_ms
from kprod.producer.accumulator import RecordAccumulator
from kprod.producer.batch import ProducerBatch
from kprod.producer.delivery_errors import (
    encoding_error,
    failure_error,
    gone_error,
)
from kprod.producer.expiry import Expiry
from kprod.producer.partition_queue import PartitionQueue
from kprod.producer.produce_response import (
    FATAL_CODES,
    SEQUENCE_CODES,
    TAKEN_CODES,
    Replies,
    append_time_ms,
    companions_error,
    leader_hints,
    leaves_open,
    named_acknowledgements,
    nodes_named,
    read_responses,
    record_errors,
)
from kprod.producer.retries import Retries
from kprod.producer.retry_timer import RetryTimer
from kprod.producer.split import split
from kprod.producer.transaction.manager import TransactionManager
from kprod.protocol.denials import denial_or_error
from kprod.protocol.error_table import ErrorCode
from kprod.timer.timer import Timer

_logger = guarded_logger(__name__)
_NO_ERROR = int(ErrorCode.NONE)  # looked up for each batch


class Delivery:
    """Settles batches according to the outcomes of their requests."""

    def __init__(  # noqa: PLR0913 - the collaborators of one response
        self,
        settings: SenderSettings,
        *,
        accumulator: RecordAccumulator,
        transaction_manager: TransactionManager,
        metadata: Metadata,
        timer: Timer,
        clock: SystemClock,
        rng: random.Random,
        recorder: Recorder,
    ) -> None:
        """Keep the parts that a response affects.

        Args:
            settings: Number of retries, and back-off.
            accumulator: Holds the batches.
            transaction_manager: The producer's id and sequences.
            metadata: Gets new leaders from responses.
            timer: The sender's timer, for back-offs.
            clock: The sender's clock; a back-off counts from its current time.
            rng: Random numbers for jitter, one for each attempt.
            recorder: Called with responses, retries and failures.
        """
        self._accumulator = accumulator
        self._transaction_manager = transaction_manager
        self._metadata = metadata
        self._recorder = recorder
        self.expiry: Expiry = Expiry(metadata, settings.delivery_timeout_ms, self._fail)
        self._retries = Retries(
            settings,
            accumulator=accumulator,
            metadata=metadata,
            timer=RetryTimer(settings, timer=timer, clock=clock, rng=rng),
            recorder=recorder,
        )

    def complete(
        self, batches: Sequence[ProducerBatch], topic_names: Mapping[int, str], outcome: Outcome
    ) -> None:
        """Settle the batches of a request.

        Args:
            batches: The request's batches, at most one for each partition.
            topic_names: Topic name by topic id (`UUID.int`), at the time of the request.
            outcome: The request's outcome.
        """
        answers: Replies = {}
        if (body := outcome.body) is not None:
            throttle_ms = 0 if isinstance(body, list) else told_throttle_ms(body)
            self._recorder.answered(outcome.node_id, outcome.latency_ms, throttle_ms)
            try:
                answers = self._read(topic_names, outcome)
            except Exception:  # the other batches must be processed all the same
                _logger.exception("A Produce answer of node %d cannot be used", outcome.node_id)
        for batch in batches:
            try:
                self._conclude(batch, answers, outcome)
            except Exception as error:
                _logger.exception("A response for %s cannot be used", batch.queue.topic)
                self._fail_unusable_response(batch, error)
            finally:
                batch.builder.chain.release()
        for batch in batches:
            if batch.queue.is_gone:
                self.fail_gone(batch.queue)

    def _read(self, topic_names: Mapping[int, str], outcome: Outcome) -> Replies:
        if isinstance(outcome.body, list):
            return named_acknowledgements(outcome.body, topic_names, outcome.version)
        answers, names_errors = read_responses(outcome.body, topic_names, outcome.version)
        if names_errors and (hints := leader_hints(answers, topic_names, outcome.version)):
            self._metadata.apply_leader_hints(hints, nodes_named(outcome.body))
        return answers

    def give_up(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a drained batch that could not be encoded; it was never written.

        Args:
            batch: A batch that its queue counts as sent.
            cause: The exception of the codec, or MemoryError.
        """
        _logger.error("A batch for %s could not be encoded", batch.queue.topic, exc_info=cause)
        self._end_attempt(batch)
        if not batch.is_done:
            self._fail_in_turn(batch, encoding_error(cause))

    def purge(self) -> int:
        """Fail all records that are certainly not in the log and not in flight.

        Returns:
            The number of failed records.
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
        """Fail the waiting batches of a partition that no longer exists.

        Responses to batches in flight are awaited first: they decide, and the other batches follow
        in order.
        """
        if queue.in_flight_count:
            return
        left_count = self._accumulator.topics[queue.topic].partition_count
        for batch in list(queue.batches):
            self._fail(batch, gone_error(queue, left_count))

    def _conclude(self, batch: ProducerBatch, answers: Replies, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._without_response(batch, outcome.error, was_written=outcome.was_written)
            return
        if outcome.body is None:
            self._succeed(batch, -1, -1)
            return
        answer = answers.get((batch.queue.topic, batch.queue.partition))
        if answer is None:
            # A partition that is missing in the response was neither accepted nor rejected.
            error = Disconnected("the broker's answer does not mention the partition")
            self._without_response(batch, error, was_written=True)
        elif isinstance(answer, tuple):
            base_offset, log_append_time_ms = answer
            self._acknowledged(batch, base_offset, log_append_time_ms)
        else:
            self._settle(batch, answer)

    def _acknowledged(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int
    ) -> None:
        if batch.is_behind:
            self._note_behind(batch, _NO_ERROR)
        else:
            self._succeed(batch, base_offset, append_time_ms(batch, log_append_time_ms))

    def _fail_unusable_response(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a batch whose response could not be processed, so that its partition continues."""
        batch.maybe_persisted = True
        if batch.in_flight:
            self._end_attempt(batch)
        if not batch.is_done:
            self._fail_in_turn(batch, failure_error(cause))
        elif not batch.is_released:
            self._accumulator.forget(batch)  # otherwise no later batch would ever be the oldest
            self._settle_next(batch.queue)

    def _settle(self, batch: ProducerBatch, answer: Mapping[str, Any]) -> None:
        code = answer["error_code"]
        if code == _NO_ERROR:
            self._acknowledged(batch, answer["base_offset"], answer["log_append_time_ms"])
            return
        if code not in FATAL_CODES and batch.is_behind:
            self._note_behind(batch, code)
            return
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeed(batch, -1, -1)
            return
        self._rejected(batch, code, answer)

    def _rejected(self, batch: ProducerBatch, code: int, answer: Mapping[str, Any]) -> None:
        """Handle a rejection of the oldest batch."""
        error = denial_or_error(
            code,
            "WRITE",
            batch.queue.topic,
            principal=self._metadata.principal,
            message=answer.get("error_message"),
        )
        batch.maybe_persisted |= leaves_open(code)
        if error.refresh_metadata:
            self._metadata.request_update()
        self._end_attempt(batch)
        if batch.is_done:
            return
        if code in FATAL_CODES and batch.has_sequence:
            # The sender's next turn fails all batches, in order.
            self._transaction_manager.fail(error)
        elif code in SEQUENCE_CODES and batch.has_sequence:
            self._sequence_rejected(batch, error)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            _logger.info("Splitting %d records for %s", batch.record_count, batch.queue.topic)
            self._accumulator.replace(batch, split(batch))
            self._recorder.split()
        elif error.retriable:
            self._retry(batch, error)
        else:
            named = record_errors(error, answer, batch.record_count)
            self._fail(batch, companions_error(error, named) if named else error, named)

    def _note_behind(self, batch: ProducerBatch, code: int) -> None:
        """Record a response to a batch that is not the oldest; the batch is sent again."""
        batch.maybe_persisted |= code in TAKEN_CODES or leaves_open(code)
        self._end_attempt(batch)
        batch.queue.rewind_later()
        self._accumulator.mark_ready(batch.queue)

    def _sequence_rejected(self, batch: ProducerBatch, error: BrokerError) -> None:
        """Handle a sequence error of the oldest batch: the partition's sequences cannot continue.

        The batch gets another sequence in the next epoch, unless the outcome of an older
        one is unknown: those batches could be stored out of order or twice, and so they fail.
        """
        queue = batch.queue
        doomed_count = queue.unknown_outcome_count
        if doomed_count and not queue.in_flight_count:
            for doomed in [queue.batches[index] for index in range(doomed_count)]:
                self._fail(doomed, own_copy(error))
            return
        self._transaction_manager.want_bump(f"{error.name} for {queue.topic}-{queue.partition}")
        self._retry(batch, error)

    def _without_response(
        self, batch: ProducerBatch, error: KprodError, *, was_written: bool
    ) -> None:
        batch.maybe_persisted |= was_written
        if error.refresh_metadata:
            self._metadata.request_update()
        self._end_attempt(batch)
        if batch.is_done:
            return
        if error.retriable:
            self._retry(batch, error)
        else:
            self._fail_in_turn(batch, own_copy(error))

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        queue = batch.queue
        if not queue.must_rewind:
            queue.may_pipeline = True
        self._end_attempt(batch)
        if not batch.is_done:
            batch.succeed(base_offset, log_append_time_ms)
            self._accumulator.forget(batch)
            self._settle_next(queue)
        if queue.has_unsent:
            self._accumulator.mark_ready(queue)

    def _end_attempt(self, batch: ProducerBatch) -> None:
        """Record that the request with the batch is complete."""
        queue = batch.queue
        queue.answered(batch)
        if batch.is_done:
            # It expired in flight. Only now are its partition's sequences known to be broken, so
            # that other batches must wait for it.
            if batch.has_sequence:
                self._transaction_manager.want_bump(
                    f"a batch of {queue.topic}-{queue.partition} expired"
                )
            self._accumulator.mark_ready(queue)

    def _retry(self, batch: ProducerBatch, error: KprodError) -> None:
        queue = batch.queue
        queue.rewind_later()
        if queue.is_gone:
            return  # `fail_gone` fails all batches in order once none is in flight
        if self._retries.are_used_up(batch):
            self._fail_in_turn(batch, own_copy(error))
        else:
            self._retries.send_again(batch, error)

    def _fail_in_turn(self, batch: ProducerBatch, error: KprodError) -> None:
        """Fail a batch without attempts in flight once all batches before it are settled."""
        if batch.is_behind:
            batch.verdict = error
            batch.queue.rewind_later()
            self._accumulator.mark_ready(batch.queue)  # this may be the last response awaited
        else:
            self._fail(batch, error)

    def _settle_next(self, queue: PartitionQueue) -> None:
        """Fail the batch that is the oldest now, if it has a verdict."""
        if queue.batches:
            batch = queue.batches[0]
            if batch.verdict is not None:
                self._fail(batch, batch.verdict)

    def _fail(
        self,
        batch: ProducerBatch,
        error: KprodError,
        record_errors: dict[int, KprodError] | None = None,
    ) -> None:
        """Fail a batch permanently; the sequences of later batches cannot continue."""
        if batch.is_done:
            return  # it had a verdict and was settled together with the previous batch
        queue = batch.queue
        if batch.has_sequence and not batch.in_flight:
            self._transaction_manager.want_bump(
                f"a batch of {queue.topic}-{queue.partition} failed: {error}"
            )
        self._accumulator.retire(batch)
        if batch.record_count:
            self._recorder.failed(queue.topic, batch.record_count)
        batch.fail(error, record_errors)
        self._accumulator.forget(batch)
        if batch.has_sequence and queue.in_flight_count:
            queue.rewind_later()
        queue.maybe_end_backoffs()
        self._accumulator.mark_ready(queue)
        self._settle_next(queue)
