"""Logs of mixed formats: where one ends and the next begins."""

import pytest

from kprod.errors import CorruptRecord
from kprod.record.entries import LogEntry, has_valid_crc, read_entries, runs
from tests.oracle import message_set, record_v2

V0 = message_set.encode([(0, -1, b"k", b"0")], magic=0)
V1 = message_set.encode([(1, 5, b"k", b"1")], magic=1, codec=1)
V2 = record_v2.encode_batch([(5, b"k", b"2", [("h", b"")])], base_offset=2, codec=4)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], []),
        ([V0, V1], [False]),
        ([V2, V2], [True]),
        ([V0, V1, V2], [False, True]),
        ([V2, V1, V2, V2, V0], [True, False, True, False]),
    ],
)
def test_runs_change_with_the_family(pieces: list[bytes], expected: list[bool]) -> None:
    """V0 and V1 share a reader, V2 has its own; together the runs are the input."""
    log = b"".join(pieces)
    found = list(runs(log))
    assert [run.is_v2 for run in found] == expected
    assert b"".join(run.view for run in found) == log
    assert [run.start for run in found] == [
        sum(len(before.view) for before in found[:index]) for index in range(len(found))
    ]


def test_all_formats_in_one_log() -> None:
    """Records of three formats, in order; a tail cut off is left out."""
    log = V0 + V1 + V2
    for tail in (b"", V0[:7], V1[:-1], V2[:20], V2[:-1]):
        entries = list(read_entries(log + tail))
        assert [entry.magic for entry in entries] == [0, 1, 2]
        assert [row[0] for entry in entries for row in entry] == [0, 1, 2]
        assert all(has_valid_crc(entry) for entry in entries)


def test_checksums_can_be_told_apart() -> None:
    """Without checks each entry says whether its own checksum is right."""
    damaged = bytearray(V0 + V1 + V2)
    damaged[-1] ^= 1
    entries = read_entries(bytes(damaged), check_crc=False)
    assert [has_valid_crc(entry) for entry in entries] == [True, True, False]
    with pytest.raises(CorruptRecord):
        list(read_entries(bytes(damaged)))


def test_an_unknown_magic_is_corrupt() -> None:
    """A format from the future, or no log at all."""
    with pytest.raises(CorruptRecord, match="magic 3"):
        list(read_entries(V0 + V1[:16] + b"\3" + V1[17:]))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 4, 5, 13])
def test_lengths_that_make_no_sense_are_corrupt(length: int) -> None:
    """The entries before it are given; then the run's reader rejects."""
    broken = V1[:8] + length.to_bytes(4, "big", signed=True) + V1[12:]
    found: list[LogEntry] = []
    with pytest.raises(CorruptRecord):
        found.extend(read_entries(V0 + broken + V2))
    entries = read_entries(V0 + broken + V2)
    assert next(entries).magic == 0


def test_every_cut_gives_entries_or_nothing() -> None:
    """At every length of the input whole entries come out, and no error."""
    log = V0 + V1 + V2
    for length in range(len(log)):
        ends = [len(V0), len(V0 + V1), len(log)]
        expected = sum(length >= end for end in ends)
        assert sum(1 for _ in read_entries(log[:length])) == expected
