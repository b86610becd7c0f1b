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
    """A topic and its partitions, in order of their indexes.

    Attributes:
        name: Its name.
        topic_id: Its id.
        config: What it uses.
        overrides: The settings that were given for it, as text.
        replication_factor: Copies of each partition.
        partition_count: Of a topic that was made, the number of its partitions.
        assignment: Brokers of each partition, the preferred leader first.
        partitions: None of a topic that was only checked.
        first_epochs: Least leader epochs of partitions, by index, where above 0.
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
        """Make a topic without partitions."""
        self.name: str = name
        self.topic_id: uuid.UUID = topic_id
        self.config: TopicConfig = config
        self.overrides: dict[str, str | None] = overrides
        self.replication_factor: int = replication_factor
        self.partition_count: int = partition_count
        self.assignment: list[list[int]] = []
        self.first_epochs: dict[int, int] = {}
        self.partitions: list[Partition] = []
