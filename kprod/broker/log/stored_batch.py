"""A batch in a log: where it stands, what is asked of it often, and its bytes as they were sent.

Thread-safety: immutable after construction.
"""

from kprod._core.record.batch_reader import RecordBatch


class StoredBatch:
    """A batch and its place.

    Attributes:
        encoded: All bytes; offset and leader epoch in them are those here.
        base_offset: Of the first record.
        last_offset: Of the last record.
        leader_epoch: In whose reign it was appended.
        max_timestamp_ms: The latest timestamp, or the broker's.
        producer_id: −1 for none.
        producer_epoch: −1 for none.
        base_sequence: −1 for none.
        last_sequence: −1 for none.
        is_control: Holds a marker.
    """

    __slots__ = (
        "base_offset",
        "base_sequence",
        "encoded",
        "is_control",
        "last_offset",
        "last_sequence",
        "leader_epoch",
        "max_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self, batch: RecordBatch, encoded: memoryview, *, base_offset: int, leader_epoch: int
    ) -> None:
        """Keep a batch.

        Args:
            batch: What a reader made of the bytes; its own offset and epoch do not matter.
            encoded: The bytes, which say the same offset and epoch as given here.
            base_offset: Its place in the log.
            leader_epoch: The leader's.
        """
        self.encoded = encoded
        self.base_offset = base_offset
        self.last_offset = base_offset + batch.last_offset_delta
        self.leader_epoch = leader_epoch
        self.max_timestamp_ms = batch.max_timestamp_ms
        self.producer_id = batch.producer_id
        self.producer_epoch = batch.producer_epoch
        self.base_sequence = batch.base_sequence
        self.last_sequence = batch.last_sequence
        self.is_control = batch.is_control
