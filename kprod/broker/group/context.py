"""The parts of the cluster that the group coordinator uses; implemented by `ClusterState`.

Thread-safety: the broker's thread.
"""

from typing import Protocol

from kprod.broker.config import EmbeddedConfig
from kprod.broker.delayed.delayed_produce import DelayedProduce
from kprod.broker.scheduler import Scheduler
from kprod.broker.topic import Topic
from kprod.broker.topics import TopicRegistry
from kprod.clock import Clock
from kprod.timer.purgatory import Purgatory
from kprod.timer.timer import Timer


class CoordinatorContext(Scheduler, Protocol):
    """Topics, time and waiting appends, as the coordinator uses them.

    Attributes:
        config: The cluster's settings.
        clock: The wall clock.
        timer: Timer for all delays.
        topics: All topics.
        waiting_produces: Appends that wait for followers.
        log_bytes: Total size of all logs.
    """

    config: EmbeddedConfig
    clock: Clock
    timer: Timer
    topics: TopicRegistry
    waiting_produces: Purgatory[DelayedProduce]
    log_bytes: int

    @property
    def log_bytes_max(self) -> int:
        """Size limit of all logs."""

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int = -1,
        replication_factor: int = -1,
        overrides: dict[str, str | None] | None = None,
    ) -> Topic:
        """Create a topic."""
