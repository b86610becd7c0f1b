"""The positions of the public consumer class: seek, pause, resume, lag.

Thread-safety: any thread.
Source: Kafka KafkaConsumer (clients 4.3.1).
"""

from kprod.consumer.consumer_face import ConsumerFace, engine_of
from kprod.consumer.selection import EARLIEST, LATEST
from kprod.model import TopicPartition


class PartitionPositions(ConsumerFace):
    """The positions of a consumer's partitions.

    Thread-safety: any thread.
    """

    def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record to be returned.

        Args:
            partition: An assigned partition.
            timeout: Seconds to wait while the position is unknown; None for
                `default_api_timeout_ms`.

        Returns:
            The offset; inside an iteration, the one after the current record.

        Raises:
            NoOffset: The partition has no position, and `auto_offset_reset` is none.
            KprodTimeout: The position was still unknown when the time was over.
            KprodError: The partition is not assigned, or the consumer is closed.

        Thread-safety: any thread.
        """
        return engine_of(self).selection.position(partition, timeout)

    def seek(
        self, partition: tuple[str, int], offset: int, leader_epoch: int | None = None
    ) -> None:
        """Set a partition's position; takes effect before the next record is returned.

        Args:
            partition: An assigned partition.
            offset: Offset of the next record; if it is not in the log, `auto_offset_reset` applies.
            leader_epoch: Leader epoch of the record before it, if known, to detect a truncation.

        Raises:
            KprodError: The partition is not assigned, or the consumer is closed.
            ValueError: The offset or the epoch is out of bounds.

        Thread-safety: any thread.
        """
        engine_of(self).selection.seek(partition, offset, leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Set positions to the logs' start offsets; any thread.

        Args:
            *partitions: Assigned partitions; all if none is given.
        """
        engine_of(self).selection.seek_by(partitions, EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Set positions to the logs' end offsets, to read only new records; any thread.

        Args:
            *partitions: Assigned partitions; all if none is given.
        """
        engine_of(self).selection.seek_by(partitions, LATEST)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return the number of offsets between position and log end, as of the newest response.

        Args:
            partition: An assigned partition.

        Returns:
            At least 0; None before the first response. Offsets without a record count, too, such as
            those of records removed by compaction.

        Thread-safety: any thread.
        """
        return engine_of(self).selection.lag(partition)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept.

        Args:
            *partitions: Assigned partitions.

        Thread-safety: any thread.
        """
        engine_of(self).selection.pause(partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions again; other partitions are not affected.

        Args:
            *partitions: Assigned partitions.

        Thread-safety: any thread.
        """
        engine_of(self).selection.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions; any thread."""
        partitions = engine_of(self).parts.assignment.partitions
        return {key for key, each in partitions.items() if each.paused}
