"""The content of a `.snapshot` file: the state of a partition's producers at an offset.

As in Kafka, it has only the last batch of each producer: after a restart, older batches are no
longer recognized as duplicates.

Thread-safety: pure functions.
Source: Kafka ProducerStateManager and ProducerSnapshot.json (4.3).
"""

import struct
from collections.abc import Iterable
from itertools import starmap
from typing import NamedTuple

import crc32c

from kprod.errors import CorruptRecord

_VERSION = 1
_HEADER = struct.Struct(">hI")  # version, checksum of the rest
_COUNT = struct.Struct(">i")
_ROW = struct.Struct(">qhiqiqiq")


class ProducerRow(NamedTuple):
    """One producer.

    Attributes:
        producer_id: Its id.
        producer_epoch: Its epoch.
        last_sequence: Last sequence of its last batch, −1 if it has none.
        last_offset: Last offset of its last batch, −1 if it has none.
        offset_delta: Last minus first offset of that batch.
        timestamp_ms: Largest timestamp of its last batch or last marker, whichever is newer.
        coordinator_epoch: Coordinator epoch of the last marker, −1 if there was none.
        open_offset: First offset of its open transaction, −1 if it has none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    open_offset: int


def encode_snapshot(rows: Iterable[ProducerRow]) -> bytes:
    """Encode the content of a snapshot file."""
    packed = list(starmap(_ROW.pack, rows))
    body = b"".join([_COUNT.pack(len(packed)), *packed])
    return _HEADER.pack(_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerRow]:
    """Decode the content of a snapshot file.

    Returns:
        The producers.

    Raises:
        CorruptRecord: The version, the checksum or the length is wrong.
    """
    if len(content) < _HEADER.size + _COUNT.size:
        raise CorruptRecord(f"a snapshot of producers has {len(content)} bytes, too few")
    version, checksum = _HEADER.unpack_from(content)
    if version != _VERSION:
        raise CorruptRecord(f"a snapshot of producers has version {version}; {_VERSION} is known")
    body = memoryview(content)[_HEADER.size :]
    if crc32c.crc32c(body) != checksum:
        raise CorruptRecord("the checksum of a snapshot of producers is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ROW.size:
        raise CorruptRecord(f"a snapshot of {count} producers has {len(content)} bytes")
    return list(map(ProducerRow._make, _ROW.iter_unpack(body[_COUNT.size :])))
