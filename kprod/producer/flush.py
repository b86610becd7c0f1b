"""Flushing: makes lingering batches due, and waits until the current batches are settled.

Thread-safety: any thread except the sender's; `flush_soon` from any thread.
Source: Kafka KafkaProducer.flush (clients 4.3.1); kprod's departure 21.
"""

from collections.abc import Sequence

from kprod._core.clock import SystemClock
from kprod._core.outcome.batch_result import BatchResult
from kprod.clock import Deadline
from kprod.errors import KprodError
from kprod.lifetime.loop_thread import LoopThread
from kprod.network.client import NetworkClient
from kprod.producer.accumulator import RecordAccumulator

Covered = Sequence[tuple[BatchResult, int]]
"""Results of batches and how many records each has."""


class Flush:
    """Flushes one producer.

    Args:
        accumulator: Holds the batches.
        client: The network client, which is woken.
        thread: The sender's thread, which must not wait for itself.
        clock: Clock for timeouts.
    """

    __slots__ = ("_accumulator", "_client", "_clock", "_thread")

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        thread: LoopThread,
        clock: SystemClock,
    ) -> None:
        self._accumulator = accumulator
        self._client = client
        self._thread = thread
        self._clock = clock

    def flush_soon(self) -> None:
        """Make the sender send lingering batches; never blocks."""
        self._accumulator.ask_for_sweep()
        self._client.wakeup()

    def flush(self, timeout: float | None) -> int:
        """See `Producer.flush`."""
        if self._thread.is_current:
            raise KprodError("flush() inside a delivery callback would wait for itself")
        covered = self._accumulator.incomplete()
        self.flush_soon()
        return await_settled(covered, self.deadline(timeout))

    def deadline(self, timeout: float | None) -> Deadline:
        """Check a timeout and create its deadline.

        Args:
            timeout: Seconds; None for no limit.

        Returns:
            The deadline.

        Raises:
            ValueError: The timeout is negative or NaN.
        """
        if timeout is not None and not timeout >= 0:  # NaN, too
            raise ValueError(f"timeout must be None or at least 0 seconds, got {timeout!r}")
        return Deadline(timeout, self._clock)


def await_settled(covered: Covered, deadline: Deadline) -> int:
    """Wait until all batches are settled or the timeout expires.

    Returns:
        The number of their records that were not delivered.
    """
    for result, _ in covered:
        if not result.wait_finished(deadline.wait_s()):
            break
    return undelivered(covered)


def undelivered(covered: Covered) -> int:
    """Count the records of these batches that failed or are not settled."""
    return sum(result.failed_count(count) for result, count in covered)
