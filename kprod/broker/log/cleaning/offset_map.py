"""The newest offset of each key of a log's dirty part, in a bounded amount of memory.

Keys are not kept, only their hashes of 128 bits, with a seed that is drawn for each round: nobody
can choose two keys that collide. The size is Kafka's, 24 bytes a key, so that rounds end at the
same records.

Complexity: O(1) for each record.

Thread-safety: one thread at a time.
Source: Kafka SkimpyOffsetMap (4.3), which hashes with MD5.
"""

import secrets

import xxhash

SLOT_BYTES = 24
"""Memory of one key: its hash and an offset."""

_LOAD_FACTOR = 0.9
_SEED_BITS = 64
NO_OFFSET = -1


class OffsetMap:
    """Offsets by key.

    Attributes:
        latest_offset: All records up to this one were looked at; −1 at first.
    """

    __slots__ = ("_keys_max", "_offsets", "_seed", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        """Make an empty map.

        Args:
            buffer_bytes: Memory that its keys may take; there is room for one key at least.
        """
        self._keys_max = max(int(buffer_bytes // SLOT_BYTES * _LOAD_FACTOR), 1)
        self._seed = secrets.randbits(_SEED_BITS)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset: int = NO_OFFSET

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """Share of the room that is taken, 0 to 1."""
        return len(self._offsets) / self._keys_max

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record.

        Args:
            key: Its key.
            offset: Above those that were put before.

        Returns:
            False when there was no room, and the record was not noted.
        """
        if len(self._offsets) >= self._keys_max:
            return False
        self._offsets[xxhash.xxh3_128_digest(key, self._seed)] = offset
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Newest offset of a key, −1 for one that is not in the map."""
        return self._offsets.get(xxhash.xxh3_128_digest(key, self._seed), NO_OFFSET)

    def pass_over(self, last_offset: int) -> None:
        """Note that all records up to an offset were looked at; some offsets have no record."""
        self.latest_offset = max(self.latest_offset, last_offset)
