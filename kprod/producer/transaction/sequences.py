"""Arithmetic of sequence numbers, modulo 2³¹.

Thread-safety: pure functions.
Source: Kafka DefaultRecordBatch.incrementSequence (clients 4.3.1); KAFKA-7693.
"""

SEQUENCE_COUNT = 1 << 31


def advance(sequence: int, record_count: int) -> int:
    """Return the sequence after a number of records; 2³¹−1 is followed by 0.

    Args:
        sequence: A sequence, 0 to 2³¹−1.
        record_count: Number of records, at least 0.

    Returns:
        0 to 2³¹−1.
    """
    return (sequence + record_count) % SEQUENCE_COUNT
