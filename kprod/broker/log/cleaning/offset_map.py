"""Maps each key of a log's dirty part to its newest offset, in a bounded amount of memory.

The map stores 128-bit hashes instead of keys. Each round hashes with a new random seed, so that
nobody can choose two keys that collide. The capacity is computed as in Kafka, 24 bytes for each
key, so that rounds end at the same records.

Complexity: O(1) for each record.

Thread-safety: one thread at a time.
Source: Kafka SkimpyOffsetMap (4.3), which hashes with MD5.
"""

import secrets
from collections.abc import Iterable

import xxhash

from kprod.model import Record

SLOT_BYTES = 24
"""Accounted memory of one key: its hash and an offset."""

_LOAD_FACTOR = 0.9
_SEED_BITS = 64
NO_OFFSET = -1
_digest = xxhash.xxh3_128_digest


class OffsetMap:
    """The newest offset of each key.

    Attributes:
        latest_offset: All records up to this offset are in the map; −1 at first.
    """

    __slots__ = ("_keys_max", "_offsets", "_seed", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        """Make an empty map.

        Args:
            buffer_bytes: Memory budget of the keys; at least one key fits.
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
        """Used share of the capacity, 0 to 1."""
        return len(self._offsets) / self._keys_max

    def learn(self, records: Iterable[Record], first_offset: int) -> bool:
        """Add the records of a batch.

        Args:
            records: Records with offsets above all that were added before.
            first_offset: Records below this offset are skipped.

        Returns:
            False if the map was full; the records before the first that did not fit were added.
        """
        offsets, keys_max, seed = self._offsets, self._keys_max, self._seed
        latest_offset = self.latest_offset
        has_room = True
        for offset, _, key, _, _ in records:
            if key is None or offset < first_offset:
                continue
            if len(offsets) >= keys_max:
                has_room = False
                break
            offsets[_digest(key, seed)] = latest_offset = offset
        self.latest_offset = latest_offset
        return has_room

    def newest_offsets(self, records: Iterable[Record]) -> list[int]:
        """Return the newest offset of each record's key.

        The offset is −1 for a record without a key and for a key that is not in the map.
        """
        newest_of, seed = self._offsets.get, self._seed
        return [
            NO_OFFSET if key is None else newest_of(_digest(key, seed), NO_OFFSET)
            for _, _, key, _, _ in records
        ]

    def get(self, key: bytes) -> int:
        """Return the newest offset of a key, −1 if the key is not in the map."""
        return self._offsets.get(_digest(key, self._seed), NO_OFFSET)

    def pass_over(self, last_offset: int) -> None:
        """Advance `latest_offset` over offsets that have no record."""
        self.latest_offset = max(self.latest_offset, last_offset)
