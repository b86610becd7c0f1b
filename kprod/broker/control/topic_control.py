"""What a test may do with the topics of a cluster: make, delete and read them.

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
        """Make a topic.

        Args:
            name: Legal and free.
            partitions: −1 takes the cluster's default.
            replication_factor: −1 takes the cluster's default.
            settings: Kafka's dotted names, such as `message.timestamp.type`.

        Raises:
            Refused: It cannot be made.
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
        """Take a topic out; made again, it has another id."""
        self._kprod.call(lambda: self._kprod.engine.state.delete_topic(name))

    def records(self, topic: str) -> dict[int, list[Record]]:
        """All records that the log holds, by partition, those not yet replicated too.

        Returns:
            Records in order of offset, by partition.

        Raises:
            Refused: The topic is unknown.
        """
        encoded = self.batches(topic)
        return {
            index: [record for piece in pieces for record in read_records(piece)]
            for index, pieces in encoded.items()
        }

    def batches(self, topic: str) -> dict[int, list[bytes]]:
        """The batches of a topic as they are stored, by partition."""
        return self._kprod.call(
            lambda: {
                partition.name.partition: [bytes(it.view) for it in partition.log.batches()]
                for partition in self._kprod.engine.topic(topic).partitions
            }
        )

    def apply_retention(self, topic: str) -> None:
        """End the active segments of a topic and drop all segments that are due.

        Kafka looks every five minutes only (`log.retention.check.interval.ms`), and its segments
        end only when something is appended.

        Raises:
            Refused: The topic is unknown.
            OSError: A segment cannot be ended.
        """

        def apply() -> None:
            state = self._kprod.engine.state
            for partition in self._kprod.engine.topic(topic).partitions:
                if partition.log.segments:
                    partition.log.roll(state.clock.timestamp_ms())
                state.upkeep.apply_retention(partition)

        self._kprod.call(apply)

    def compact(self, topic: str) -> dict[int, "RoundSummary"]:
        """End the active segments of a topic and compact all of it, now.

        Kafka never compacts the active segment, and looks for dirty logs every 15 seconds only
        (`log.cleaner.backoff.ms`). Records above the high watermark, of open transactions, and
        those younger than `min.compaction.lag.ms` stay as they are, as they always do.

        Args:
            topic: With `compact` in its `cleanup.policy`.

        Returns:
            A summary for each partition.

        Raises:
            Refused: The topic is unknown, or its policy has no `compact`.
            OSError: A file cannot be read or written.
        """

        def compact() -> "dict[int, RoundSummary]":
            engine = self._kprod.engine
            partitions = engine.topic(topic).partitions
            return {it.name.partition: engine.state.cleaner.clean_now(it) for it in partitions}

        return self._kprod.call(compact)

    def forget_topic(self, topic: str) -> None:
        """Let Metadata deny a topic that is there."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.add(topic))

    def remember_topic(self, topic: str) -> None:
        """Let Metadata tell of a forgotten topic again."""
        self._kprod.call(lambda: self._kprod.engine.state.forgotten_topics.discard(topic))
