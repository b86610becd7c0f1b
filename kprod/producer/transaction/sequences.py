"""Sequence arithmetic: numbers of records per partition, modulo 2³¹.

Thread-safety: pure functions.
Source: Kafka DefaultRecordBatch.incrementSequence (clients 4.3.1); KAFKA-7693.
"""

SEQUENCE_COUNT = 1 << 31


def advance(sequence: int, record_count: int) -> int:
    """The sequence that follows `record_count` records; after 2³¹−1 comes 0.

    Args:
        sequence: 0 to 2³¹−1.
        record_count: At least 0.

    Returns:
        0 to 2³¹−1.
    """
    return (sequence + record_count) % SEQUENCE_COUNT
