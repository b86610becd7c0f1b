"""The parameters of the compiled send path: limits, and the hooks to call for each record.

Thread-safety: immutable.
"""

from typing import NamedTuple

from kprod._core.send.key_hash import KeyHash


class SendRules(NamedTuple):
    """The parameters of one producer's send path.

    Attributes:
        max_block_ms: Maximum wait of a `send`, for metadata and memory together.
        record_bytes_max: Maximum encoded size of a record.
        has_interceptors: Whether to call `intercept` for each record.
        has_serializers: Whether to call `serialize` for each record.
        has_partitioner: Whether to call `choose_partition` for each record without partition.
        takes_turns: Whether records without partition go to the partitions in turn.
        key_hash: Hash function; the hash modulo the number of partitions is the partition.
        hashed_key_bytes_min: Minimum length of a key that is hashed; null has length −1.
    """

    max_block_ms: int
    record_bytes_max: int
    has_interceptors: bool = False
    has_serializers: bool = False
    has_partitioner: bool = False
    takes_turns: bool = False
    key_hash: KeyHash = KeyHash.MURMUR2
    hashed_key_bytes_min: int = 0
