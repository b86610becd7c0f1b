"""What a broker refuses from a producer."""

import pytest

from kprod.errors import CorruptRecord, RemoteProtocolError, UnsupportedCodec
from kprod.record.validation import produced_batch
from tests.oracle import record_v2
from tests.oracle.record_v2 import BatchFields

ROWS = [(5, b"k", b"v", [("h", b"x")]), (6, None, None, [])]


@pytest.mark.parametrize("codec", range(5))
def test_ordinary_batch(codec: int) -> None:
    """A sound batch of every codec passes, idempotent and transactional ones too."""
    buffer = record_v2.encode_batch(
        ROWS,
        codec=codec,
        is_transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    assert produced_batch(buffer, api_version=7).record_count == 2
    assert produced_batch(record_v2.encode_batch(ROWS), api_version=3).record_count == 2


@pytest.mark.parametrize(
    ("rows", "fields", "reason"),
    [
        (ROWS, {"is_control": True}, "control batch"),
        ([], {}, "no records"),
        (ROWS, {"last_offset_delta": 7}, "2 records end at offset delta 7"),
        (ROWS, {"is_transactional": True}, "no producer id"),
        (ROWS, {"producer_id": 4, "producer_epoch": 0}, "base sequence -1"),
        (ROWS, {"producer_id": 4, "base_sequence": 0}, "epoch -1"),
    ],
)
def test_sound_but_not_from_a_producer(
    rows: list[record_v2.RecordInput], fields: BatchFields, reason: str
) -> None:
    """What only brokers and logs have is refused, and not as corrupt."""
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        produced_batch(record_v2.encode_batch(rows, **fields), api_version=9)
    assert caught.type is RemoteProtocolError


def test_one_batch_only() -> None:
    """A second batch, or part of one, is refused."""
    buffer = record_v2.encode_batch(ROWS)
    with pytest.raises(RemoteProtocolError, match="may have one"):
        produced_batch(buffer * 2, api_version=9)
    with pytest.raises(RemoteProtocolError, match="3 bytes follow"):
        produced_batch(buffer + b"abc", api_version=9)


@pytest.mark.parametrize("length", [0, 11, 61, 80])
def test_no_whole_batch(length: int) -> None:
    """Records that are cut off are corrupt."""
    with pytest.raises(CorruptRecord, match=f"{length} bytes of records hold no whole batch"):
        produced_batch(record_v2.encode_batch(ROWS)[:length], api_version=9)


def test_gap_inside() -> None:
    """Offsets that do not count 0, 1, 2 … are corrupt."""
    rows: list[record_v2.RecordInput] = [(0, None, None, ())] * 3
    buffer = record_v2.encode_batch(rows, offset_deltas=(0, 2, 2))
    with pytest.raises(CorruptRecord, match="record 1 has offset delta 2"):
        produced_batch(buffer, api_version=9)


def test_zstd_before_version_7() -> None:
    """Zstd needs Produce version 7."""
    buffer = record_v2.encode_batch(ROWS, codec=4)
    with pytest.raises(UnsupportedCodec, match="Produce version 6"):
        produced_batch(buffer, api_version=6)


def test_size_bound() -> None:
    """A batch past the broker's bound is refused before it is read."""
    with pytest.raises(CorruptRecord, match="must be 61 to 64"):
        produced_batch(record_v2.encode_batch(ROWS), api_version=9, batch_bytes_max=64)
