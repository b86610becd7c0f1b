"""The record that applications read: a value, with lazy headers, unknown to the collector."""

import gc
import pickle

import pytest

from kprod.errors import CorruptRecord
from kprod.model import Header, TimestampType
from kprod.record.blocks import ConsumerRecord, PartitionStamp, RecordBlock
from tests._core.batches import GOLDEN_PLAIN, NULL, START, encoded_record, sealed
from tests.oracle import record_v2

STAMP = PartitionStamp("orders", 3)


def read(headers: list[tuple[str, bytes | None]], count: int = 1) -> list[ConsumerRecord]:
    """Records with these headers, as a consumer reads them."""
    data = record_v2.encode_batch([(5, b"k", b"v", headers)] * count)
    return RecordBlock(data, STAMP, 0).take(count)


def test_headers_are_decoded_once_and_share_their_keys() -> None:
    """Reading them again gives the same tuple; equal keys of neighbours are one object."""
    first, second = read([("trace", b"1"), ("kind", None)], 2)
    assert first.headers is first.headers
    assert first.headers == (Header("trace", b"1"), Header("kind", None))
    assert all(one.key is two.key for one, two in zip(first.headers, second.headers, strict=True))


def test_a_header_key_that_is_no_text() -> None:
    """The record can be read; its headers say what is wrong, and where, each time."""
    data = sealed(GOLDEN_PLAIN, encoded_record(START + NULL * 2 + b"\x02\x02\xff\x00"), count=1)
    (record,) = RecordBlock(data, STAMP, 0).take(1)
    assert record.value is None
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"'orders', partition 3, offset 0: .*not UTF-8"):
            _ = record.headers


def test_the_collector_does_not_know_records() -> None:
    """A million records cost it nothing."""
    (record,) = read([("a", b"1")])
    assert not gc.is_tracked(record)
    assert not gc.is_tracked(STAMP)
    assert not gc.is_tracked(record.headers)


def test_records_are_values() -> None:
    """Equal fields, equal records; they cannot be changed, and can be keys."""
    (one,) = read([("a", b"1")])
    (other,) = read([("a", b"1")])
    (different,) = read([("a", b"2")])
    assert one == other
    assert hash(one) == hash(other)
    assert one != different
    assert one != "text"
    with pytest.raises(AttributeError):
        one.value = b"w"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        one.more = 1  # type: ignore[attr-defined]
    assert "offset=0" in repr(one)
    assert "key=b'k', value=b'v', headers=(Header(key='a', value=b'1'),)" in repr(one)


def test_records_can_be_pickled() -> None:
    """Process pools send them."""
    (record,) = read([("a", None)])
    assert pickle.loads(pickle.dumps(record)) == record
    data = record_v2.encode_batch([(5, b"k", b"v", [])])
    (viewed,) = RecordBlock(data, STAMP, 0, as_views=True).take(1)
    assert pickle.loads(pickle.dumps(viewed)).value == b"v"
    assert viewed == pickle.loads(pickle.dumps(viewed))


def test_an_application_can_make_one() -> None:
    """For its own tests."""
    made = ConsumerRecord(
        "t",
        1,
        5,
        timestamp_ms=9,
        timestamp_type=1,
        leader_epoch=2,
        value=b"v",
        headers=[("a", b"")],
    )
    assert (made.topic, made.partition, made.offset, made.timestamp_ms) == ("t", 1, 5, 9)
    assert (made.timestamp_type, made.leader_epoch) == (TimestampType.LOG_APPEND_TIME, 2)
    assert (made.key, made.value, made.headers) == (None, b"v", (("a", b""),))
    plain = ConsumerRecord("t", 1, 5)
    assert (plain.timestamp_ms, plain.leader_epoch, plain.headers) == (-1, None, ())
    with pytest.raises(ValueError, match="timestamp_type=2"):
        ConsumerRecord("t", 1, 5, timestamp_type=2)
    with pytest.raises(TypeError, match="value must be bytes"):
        ConsumerRecord("t", 1, 5, value=[])  # type: ignore[arg-type]
