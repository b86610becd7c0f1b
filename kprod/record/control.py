"""Control batches: the markers that end a transaction in a partition's log.

A marker is a batch of one record whose key says commit or abort and whose value carries the epoch
of the transaction coordinator that wrote it. Applications never see them.

Thread-safety: pure functions.
Source: Kafka ControlRecordType, EndTransactionMarker and MemoryRecords.writeEndTransactionalMarker
(clients 4.3.1); KIP-98.
"""

import enum
import struct
from typing import NamedTuple

from kprod._core.layout import BatchAttributes, BatchLayout, Magic
from kprod._core.record.batch_rewrite import rewrite_crc
from kprod.errors import CorruptRecord
from kprod.model import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
# The fields of a batch's header in their order, without padding.
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
# Length 16, attributes 0, both deltas 0, key of 4 bytes; all are zig-zag varints of one byte.
_RECORD_HEAD = bytes((32, 0, 0, 0, 8))
_VALUE_LENGTH = bytes((12,))
_NO_HEADERS = bytes((0,))
_NO_SEQUENCE = -1
_NO_LEADER_EPOCH = -1


class ControlType(enum.IntEnum):
    """Type of a control record; Kafka has more types, which do not concern clients."""

    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """The end of a transaction.

    Attributes:
        control_type: Commit or abort.
        coordinator_epoch: Epoch of the coordinator that wrote the marker; 0 or more.
    """

    control_type: ControlType
    coordinator_epoch: int


def decode_marker(record: Record) -> EndMarker | None:
    """Read a control record.

    Args:
        record: The record of a control batch.

    Returns:
        The marker, or None for a kind of control record that ends no transaction.

    Raises:
        CorruptRecord: Key or value are too short, or their version is negative.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecord(
            f"a control record's key has {len(record.key or b'')} of {_KEY.size} bytes"
        )
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptRecord(f"control record of version {version}")
    if number not in set(ControlType):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecord(
            f"a transaction marker's value has {len(record.value or b'')} of {_VALUE.size} bytes"
        )
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptRecord(f"transaction marker of version {version}")
    return EndMarker(ControlType(number), coordinator_epoch)


def encode_marker_batch(
    marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """Write the control batch that ends a transaction in one partition.

    Args:
        marker: A commit or an abort.
        producer_id: The transaction's producer id; 0 or more.
        producer_epoch: The transaction's producer epoch; 0 or more.
        timestamp_ms: Milliseconds since 1970.

    Returns:
        The batch, at offset 0; the log gives it its own.
    """
    record = b"".join(
        (
            _RECORD_HEAD,
            _KEY.pack(_VERSION, marker.control_type),
            _VALUE_LENGTH,
            _VALUE.pack(_VERSION, marker.coordinator_epoch),
            _NO_HEADERS,
        )
    )
    length = BatchLayout.BATCH_OVERHEAD_BYTES - BatchLayout.LOG_OVERHEAD_BYTES + len(record)
    attributes = BatchAttributes.TRANSACTIONAL_MASK | BatchAttributes.CONTROL_MASK
    batch = bytearray(
        _BATCH_HEADER.pack(
            0,
            length,
            _NO_LEADER_EPOCH,
            Magic.MAGIC_V2,
            0,
            attributes,
            0,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            _NO_SEQUENCE,
            1,
        )
    )
    batch += record
    rewrite_crc(batch)
    return batch
