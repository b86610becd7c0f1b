# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""The parts of one consumer, which `consumer_wiring` creates, and its open or closed state.

Thread-safety: each part says its own.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from kprod._core.clock import SystemClock
from kprod._core.outcome.batch_result import BatchResult
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.activity import Activity
from kprod.consumer.assignment import Assignment
from kprod.consumer.consumer_interceptors import ConsumerInterceptors
from kprod.consumer.mailbox import Mailbox
from kprod.errors import KprodError, KprodTimeout

if TYPE_CHECKING:
    from kprod._core.reader_claim import ReaderClaim
    from kprod.cluster.metadata import Metadata
    from kprod.consumer.direct_read import DirectRead
    from kprod.consumer.fetch_buffer import FetchBuffer
    from kprod.consumer.fetch_plan import FetchPlan
    from kprod.consumer.fetcher import Fetcher
    from kprod.consumer.group.group_parts import GroupParts
    from kprod.consumer.hand_over import HandOver
    from kprod.consumer.loop import ConsumerLoop
    from kprod.consumer.offset_lookup import OffsetLookup
    from kprod.consumer.topic_watch import TopicWatch
    from kprod.lifetime.loop_thread import LoopThread
    from kprod.metrics.state_log import StateLog
    from kprod.network.client import NetworkClient

_TIMEOUT_MAX_S = 100 * 365 * 86_400.0
_SLICE_S = 0.2  # interval of the checks whether the I/O thread still runs


class ConsumerParts:
    """The parts of one consumer.

    Attributes:
        config: The topic's settings.
        clock: Monotonic and wall clock.
        client_id: The client id that brokers and log lines show.
        mailbox: Messages between the threads.
        assignment: The assigned partitions.
        interceptors: The application's interceptors.
        activity: Signs that the application asks for records.
        group: The parts of its group; None without `group_id`.
        direct_read: The direct path of reads; None if it is not open.
        join_group: Makes the consumer a member of its group.
        match_group: Changes the member's topics to those that match its pattern.
        leave_group: Ends the membership, if there is one.
        reader: Identity of the thread that polled last; None before the first poll.
        steps_until_ms: Deadline, monotonic, of the read that runs steps; None for none.
        closed_error: Creates the error for calls after the close; None while the consumer is open.
        alone: Excludes a second thread from reading and from changing the assignment.
        state_log: Called with changes that an operator should know.
        metadata: The cluster metadata.
        client: The network client.
        buffer: The fetched records.
        lookup: Queries offsets.
        plan: The partitions that are fetched.
        fetcher: Fetches records.
        topics: Watches for problems with topics.
        hand_over: Returns records to the application.
        loop: The I/O thread's loop.
        thread: The I/O thread.
    """

    def __init__(self, config: ConsumerConfig, clock: SystemClock, client_id: str) -> None:
        """Create the parts that the others share.

        Args:
            config: The topic's settings.
            clock: Monotonic and wall clock.
            client_id: The client id, not empty.
        """
        self.config: ConsumerConfig = config
        self.clock: SystemClock = clock
        self.client_id: str = client_id
        self.mailbox: Mailbox = Mailbox()
        self.assignment: Assignment = Assignment()
        self.activity: Activity = Activity()
        self.group: GroupParts | None = None
        self.reader: Hashable = None
        self.steps_until_ms: int | None = None
        self.join_group: Callable[..., object] = _no_group
        self.match_group: Callable[[tuple[str, ...], frozenset[str]], object] = _no_group
        self.leave_group: Callable[[], object] = _no_group
        self.interceptors: ConsumerInterceptors = ConsumerInterceptors(config.interceptors)
        self.direct_read: DirectRead | None = None
        self.closed_error: Callable[[], KprodError] | None = None
        # Set by `consumer_wiring` and the engine.
        self.alone: ReaderClaim
        self.state_log: StateLog
        self.metadata: Metadata
        self.client: NetworkClient
        self.buffer: FetchBuffer
        self.lookup: OffsetLookup
        self.plan: FetchPlan
        self.fetcher: Fetcher
        self.topics: TopicWatch
        self.hand_over: HandOver
        self.loop: ConsumerLoop
        self.thread: LoopThread

    def check_open(self) -> None:
        """Raise if the consumer was closed.

        Raises:
            ClosedError: It was closed, or was created in the parent process.
            KprodError: Its I/O thread died.
        """
        if self.closed_error is not None:
            raise self.closed_error()

    def until_ms(self, timeout: float | None) -> int | None:
        """Convert a timeout to a deadline.

        Args:
            timeout: Seconds, at least 0; None for no limit.

        Returns:
            The deadline in monotonic milliseconds, or None.

        Raises:
            ValueError: The timeout is negative or not a number.
        """
        check_timeout(timeout)
        if timeout is None:
            return None
        seconds = timeout
        return self.clock.now_ms() + int(seconds * 1_000 + 0.5)

    def api_limit(self, timeout: float | None) -> float:
        """Return how long a call may wait, in seconds.

        Args:
            timeout: Seconds, or None for `default_api_timeout_ms`.

        Returns:
            Seconds.
        """
        return self.config.default_api_timeout_ms / 1_000 if timeout is None else timeout

    def timed_out(
        self, what: str, timeout: float | None, *, topic: str | None = None
    ) -> KprodTimeout:
        """Create the error for a call that timed out.

        Args:
            what: The thing that was waited for, for the text.
            timeout: The application's timeout.
            topic: A topic that it concerns; None for none.

        Returns:
            The error; its text includes the brokers' last errors.
        """
        return KprodTimeout(
            f"{what} could not be had within {self.api_limit(timeout):g} s"
            f" ({'default_api_timeout_ms' if timeout is None else 'timeout'}):"
            f" {self.metadata.trouble(topic)}"
        )

    def wait_done(self, done: BatchResult, until_ms: int | None) -> bool:
        """Wait for something that the I/O thread completes, unless the consumer is closed.

        Args:
            done: A latch, whose waits a signal handler may interrupt.
            until_ms: Deadline, monotonic; None for none.

        Returns:
            Whether it is complete.

        Raises:
            KprodError: The caller is the I/O thread, which cannot wait for itself.
        """
        if self.thread.is_current:
            raise KprodError("a call that waits cannot be made on the consumer's own thread")
        while not done.finished and self.closed_error is None:
            left_s = _SLICE_S
            if until_ms is not None:
                left_s = min(left_s, (until_ms - self.clock.now_ms()) / 1_000)
                if left_s <= 0:
                    break
            if self.thread.is_started:
                done.wait_finished(left_s)
            else:
                self.loop.run_once(self.clock.now_ms())
        return done.finished

    def wait(self, is_ready: Callable[[], bool], until_ms: int | None) -> None:
        """Wait until a condition holds, something has changed, or the deadline has passed.

        Args:
            is_ready: The condition, checked after each event.
            until_ms: Deadline, monotonic; None for none.
        """
        if self.thread.is_started:
            self.mailbox.wait(is_ready, self.clock, until_ms)
        elif not is_ready():
            self.loop.run_once(self.clock.now_ms())

    def wait_until(self, is_ready: Callable[[], bool], until_ms: int) -> None:
        """Wait until a condition holds, the deadline has passed, or the consumer is closed.

        Args:
            is_ready: The condition, checked after each event.
            until_ms: Deadline, monotonic.
        """
        while not is_ready() and self.closed_error is None and self.clock.now_ms() < until_ms:
            self.wait(is_ready, until_ms)


def _no_group(*_arguments: object) -> None:
    """Do nothing: the consumer has no group."""


def check_timeout(timeout: float | None) -> None:
    """Check a timeout from the application.

    Args:
        timeout: Seconds; None for no limit.

    Raises:
        ValueError: It is negative, not a number (NaN), or longer than a hundred years.
    """
    if timeout is not None and not 0 <= timeout <= _TIMEOUT_MAX_S:
        raise ValueError(
            f"timeout must be None or from 0 to {_TIMEOUT_MAX_S:.0f} seconds, got {timeout!r}"
        )
