"""The parts of one consumer, which `consumer_wiring` makes, and whether they may be used.

Thread-safety: each part says its own.
"""

from collections.abc import Callable

from kprod.clock import SystemClock
from kprod.cluster.metadata import Metadata
from kprod.config.consumer_config import ConsumerConfig
from kprod.consumer.assignment import Assignment
from kprod.consumer.consumer_interceptors import ConsumerInterceptors
from kprod.consumer.fetch_buffer import FetchBuffer
from kprod.consumer.fetcher import Fetcher
from kprod.consumer.hand_over import HandOver
from kprod.consumer.loop import ConsumerLoop
from kprod.consumer.mailbox import Mailbox
from kprod.consumer.offset_lookup import OffsetLookup
from kprod.consumer.topic_watch import TopicWatch
from kprod.errors import KprodError, KprodTimeout
from kprod.lifetime.loop_thread import LoopThread
from kprod.metrics.state_log import StateLog
from kprod.network.client import NetworkClient

_TIMEOUT_MAX_S = 100 * 365 * 86_400


class ConsumerParts:
    """What a consumer is made of.

    Attributes:
        config: The settings.
        clock: Both instants.
        client_id: The name that brokers see, and log lines.
        mailbox: Between the threads.
        assignment: The partitions that are read.
        interceptors: The application's.
        closed_error: Makes the error of a call that comes too late; None while it is open.
        state_log: Told of changes that an operator should know.
        metadata: Of the cluster.
        client: Holds the connections.
        buffer: Fetched records.
        lookup: Asks for offsets.
        fetcher: Fetches.
        topics: Knows what keeps partitions from being read.
        hand_over: Hands records out.
        loop: Takes turns.
        thread: Takes the loop's turns.
    """

    state_log: StateLog
    metadata: Metadata
    client: NetworkClient
    buffer: FetchBuffer
    lookup: OffsetLookup
    fetcher: Fetcher
    topics: TopicWatch
    hand_over: HandOver
    loop: ConsumerLoop
    thread: LoopThread

    def __init__(self, config: ConsumerConfig, clock: SystemClock, client_id: str) -> None:
        """Keep what the parts have in common.

        Args:
            config: The settings.
            clock: Both instants.
            client_id: Not empty.
        """
        self.config = config
        self.clock = clock
        self.client_id = client_id
        self.mailbox: Mailbox = Mailbox()
        self.assignment: Assignment = Assignment()
        self.interceptors: ConsumerInterceptors = ConsumerInterceptors(config.interceptors)
        self.closed_error: Callable[[], KprodError] | None = None

    def check_open(self) -> None:
        """Refuse a call on a consumer that was closed.

        Raises:
            ClosedError: It was, or it is a forked child's copy.
            KprodError: Its thread died.
        """
        if self.closed_error is not None:
            raise self.closed_error()

    def until_ms(self, timeout: float | None) -> int | None:
        """When to give up waiting.

        Args:
            timeout: Seconds, at least 0; None for never.

        Returns:
            Monotonic milliseconds, or None.

        Raises:
            ValueError: The timeout is negative or no number.
        """
        check_timeout(timeout)
        return None if timeout is None else self.clock.now_ms() + round(timeout * 1_000)

    def api_limit(self, timeout: float | None) -> float:
        """How long a call may wait.

        Args:
            timeout: Seconds, or None for `default_api_timeout_ms`.

        Returns:
            Seconds.
        """
        return self.config.default_api_timeout_ms / 1_000 if timeout is None else timeout

    def timed_out(self, what: str, timeout: float | None) -> KprodTimeout:
        """Make the error of a call that waited too long.

        Args:
            what: Was awaited.
            timeout: As the application gave it.

        Returns:
            The error; its text says what brokers said.
        """
        return KprodTimeout(
            f"{what} could not be had within {self.api_limit(timeout):g} s"
            f" ({'default_api_timeout_ms' if timeout is None else 'timeout'}):"
            f" {self.metadata.trouble()}"
        )

    def wait(self, is_ready: Callable[[], bool], until_ms: int | None) -> None:
        """Wait until something is ready, or the time is over.

        Args:
            is_ready: Looked at after each event.
            until_ms: Monotonic; None for no end.
        """
        if self.thread.is_started:
            self.mailbox.wait(is_ready, self.clock, until_ms)
        elif not is_ready():
            self.loop.run_once(self.clock.now_ms())


def check_timeout(timeout: float | None) -> None:
    """Check a timeout as an application gave it.

    Args:
        timeout: Seconds; None has no end.

    Raises:
        ValueError: It is negative, not a number (NaN), or longer than a hundred years.
    """
    if timeout is not None and not 0 <= timeout <= _TIMEOUT_MAX_S:
        raise ValueError(
            f"timeout must be None or from 0 to {_TIMEOUT_MAX_S} seconds, got {timeout!r}"
        )
