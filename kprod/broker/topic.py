"""One topic of a cluster and its partitions.

Thread-safety: the broker's thread.
Source: KIP-516 for topic ids.
"""

import uuid
from typing import TYPE_CHECKING

from kprod.broker.topic_config import TopicConfig

if TYPE_CHECKING:
    from kprod.broker.replication import Partition


class Topic:
    """A topic and its partitions, ordered by partition number.

    Attributes:
        name: Its name.
        topic_id: Its id.
        config: The effective settings.
        overrides: The topic's own settings, as text.
        replication_factor: Number of replicas of each partition.
        partition_count: Number of partitions; for a dry run, the requested number.
        assignment: Brokers of each partition, the preferred leader first.
        partitions: The partitions; empty for a dry run.
        first_epochs: Minimum leader epochs of partitions, by index, if above 0.
    """

    __slots__ = (
        "assignment",
        "config",
        "first_epochs",
        "name",
        "overrides",
        "partition_count",
        "partitions",
        "replication_factor",
        "topic_id",
    )

    def __init__(  # a topic's own facts, by keyword
        self,
        name: str,
        topic_id: uuid.UUID,
        config: TopicConfig,
        *,
        overrides: dict[str, str | None],
        replication_factor: int,
        partition_count: int,
    ) -> None:
        """Create a topic without partitions."""
        self.name: str = name
        self.topic_id: uuid.UUID = topic_id
        self.config: TopicConfig = config
        self.overrides: dict[str, str | None] = overrides
        self.replication_factor: int = replication_factor
        self.partition_count: int = partition_count
        self.assignment: list[list[int]] = []
        self.first_epochs: dict[int, int] = {}
        self.partitions: list[Partition] = []
