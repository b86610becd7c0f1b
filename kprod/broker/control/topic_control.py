"""Controls the topics of a cluster: creates, deletes and reads them.

Thread-safety: as `EmbeddedCluster`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kprod.broker.cluster_runner import ClusterRunner
from kprod.model import Record
from kprod.record.reader import read_records

if TYPE_CHECKING:
    from kprod.broker.log.cleaning.round import RoundSummary


class TopicControl:
    """Methods of an `EmbeddedCluster` about its topics."""

    __slots__ = ()

    _kprod: ClusterRunner

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic.

        Args:
            name: A valid name that no topic has.
            partitions: Number of partitions; −1 for the cluster's default.
            replication_factor: Number of replicas; −1 for the cluster's default.
            settings: Topic settings by Kafka's dotted name, such as `message.timestamp.type`.

        Raises:
            Rejected: The name or a setting is invalid, or the topic exists; the text says which.
        """
        self._kprod.call(
            lambda: self._kprod.engine.state.create_topic(
                name,
                partition_count=partitions,
                replication_factor=replication_factor,
                overrides=dict(settings or {}),
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic; if it is created again, it has another id."""
        self._kprod.call(lambda: self._kprod.engine.state.delete_topic(name))

    def records(self, topic: str) -> dict[int, list[Record]]:
        """Return all records of a topic, including those that are not replicated yet.

        Returns:
            Records in order of offset, by partition.

        Raises:
            Rejected: The topic is unknown.
        """
        encoded = self.batches(topic)
        return {
            index: [record for piece in pieces for record in read_records(piece)]
            for index, pieces in encoded.items()
        }

    def batches(self, topic: str) -> dict[int, list[bytes]]:
        """Return the batches of a topic as they are stored, by partition."""
        return self._kprod.call(
            lambda: {
                partition.name.partition: [bytes(it.view) for it in partition.log.batches()]
                for partition in self._kprod.engine.topic(topic).partitions
            }
        )

    def apply_retention(self, topic: str) -> None:
        """Close the active segments of a topic, and delete all segments past their retention.

        Kafka checks retention only every five minutes (`log.retention.check.interval.ms`), and
        closes a segment only when something is appended.

        Raises:
            Rejected: The topic is unknown.
            OSError: A segment cannot be closed.
        """

        def apply() -> None:
            state = self._kprod.engine.state
            for partition in self._kprod.engine.topic(topic).partitions:
                if partition.log.segments:
                    partition.log.roll(state.clock.timestamp_ms())
                state.upkeep.apply_retention(partition)

        self._kprod.call(apply)

    def compact(self, topic: str) -> dict[int, "RoundSummary"]:
        """Close the active segments of a topic, and compact all segments now.

        Kafka never compacts the active segment, and looks for dirty logs only every 15 seconds
        (`log.cleaner.backoff.ms`). As always, these records are not compacted: records above the
        high watermark, of open transactions, and younger than `min.compaction.lag.ms`.

        Args:
            topic: Name of a topic with `compact` in its `cleanup.policy`.

        Returns:
            A summary for each partition.

        Raises:
            Rejected: The topic is unknown, or its policy has no `compact`.
            OSError: A file cannot be read or written.
        """

        def compact() -> "dict[int, RoundSummary]":
            engine = self._kprod.engine
            partitions = engine.topic(topic).partitions
            return {it.name.partition: engine.state.cleaner.clean_now(it) for it in partitions}

        return self._kprod.call(compact)

    def forget_topic(self, topic: str) -> None:
        """Make Metadata responses report an existing topic as unknown."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.add(topic))

    def remember_topic(self, topic: str) -> None:
        """Make Metadata responses include a forgotten topic again."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.discard(topic))
