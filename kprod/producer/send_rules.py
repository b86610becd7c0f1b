"""What the compiled send path is told once: limits, and which questions to ask for each record.

Thread-safety: immutable.
"""

from typing import NamedTuple

from kprod._core.send.key_hash import KeyHash


class SendRules(NamedTuple):
    """The rules of one producer.

    Attributes:
        max_block_ms: Longest a `send` may wait, for metadata and memory together.
        record_bytes_max: Upper bound of a record's encoded size.
        has_interceptors: Whether `intercept` must see each record.
        has_serializers: Whether `serialize` must see each record.
        has_partitioner: Whether `choose_partition` must see each record without partition.
        takes_turns: Whether records without partition go to the partitions in turn.
        key_hash: Its remainder is a key's partition.
        hashed_key_bytes_min: A key of fewer bytes does not decide the partition; null counts −1.
    """

    max_block_ms: int
    record_bytes_max: int
    has_interceptors: bool = False
    has_serializers: bool = False
    has_partitioner: bool = False
    takes_turns: bool = False
    key_hash: KeyHash = KeyHash.MURMUR2
    hashed_key_bytes_min: int = 0
