"""Findings of the verifier, and contents that it accepts."""

from kprod.record.entries import read_entries
from kprod.record.verification import LogVerifier
from tests.oracle import message_set, record_v2

ROW: record_v2.RecordInput = (0, None, b"v", [])


def problems(log: bytes) -> list[str]:
    """Return the faults of a log."""
    verifier = LogVerifier()
    entries = read_entries(log, check_crc=False)
    return [problem for entry in entries for problem in verifier.problems(entry)]


def batch(base_offset: int) -> bytes:
    """Return a batch of two records."""
    return record_v2.encode_batch([ROW, ROW], base_offset=base_offset)


def test_sound_logs_pass() -> None:
    """Gaps between entries and inside them are what compaction leaves."""
    old = message_set.encode([(0, 0, None, b""), (3, 0, None, b"")], magic=1, codec=1)
    old += message_set.encode([(4, 0, None, b"")], magic=0)
    gaps = record_v2.encode_batch([ROW, ROW], base_offset=20, offset_deltas=[1, 5])
    emptied = record_v2.encode_batch([], base_offset=30, last_offset_delta=4)
    assert problems(old + batch(5) + batch(9) + gaps + emptied + batch(35)) == []


def test_wrong_checksums() -> None:
    """Each damaged entry is named once, and the sound ones are checked on."""
    damaged = bytearray(batch(0) + batch(2) + batch(2))
    damaged[len(batch(0)) - 1] ^= 1
    found = problems(bytes(damaged))
    assert len(found) == 2
    assert "checksum is not" in found[0]
    assert found[1] == "offset 2 follows offset 3"


def test_offsets_going_back() -> None:
    """Between batches, between messages, and from one format to the other."""
    old = message_set.encode([(7, 0, None, b"")], magic=1)
    assert problems(batch(5) + batch(5)) == ["offset 5 follows offset 6"]
    assert problems(old + old) == ["offset 7 follows offset 7"]
    assert problems(old + batch(7)) == ["offset 7 follows offset 7"]
    assert problems(batch(6) + old) == ["offset 7 follows offset 7"]


def test_offsets_inside_a_batch() -> None:
    """They ascend, and none is behind the batch's last."""
    twice = record_v2.encode_batch([ROW, ROW], offset_deltas=[1, 1])
    assert problems(twice) == ["record offset 1 after 1 in a batch up to 1"]
    behind = record_v2.encode_batch([ROW], offset_deltas=[4], last_offset_delta=3)
    assert len(problems(behind)) == 1


def test_records_that_cannot_be_read() -> None:
    """A right checksum over a wrong content: the reader's text is the problem."""
    wrapper = message_set.encode_message((0, 0, None, b"no gzip"), magic=1, attributes=1)
    assert len(problems(wrapper)) == 1
