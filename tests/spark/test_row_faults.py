"""Each fault of a row is found by kernels as a reading row by row finds it."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod.spark.bad_rows import as_rows
from kprod.spark.row_faults import RowFault, fault_text, reject
from kprod.topic_name import name_fault
from tests.spark.running import ROOT

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE_HEADERS = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.binary())]))
ENTRY = st.none() | st.fixed_dictionaries(
    {"key": st.none() | st.sampled_from(["", "k"]), "value": st.none() | st.just(b"v")}
)
ROW = st.fixed_dictionaries(
    {
        "topic": st.sampled_from([None, "", ".", "a b", "x" * 250, "good", "fine"]),
        "partition": st.sampled_from([None, -(2**31), -1, 0, 7]),
        "timestamp": st.sampled_from([None, -1, 0, 1_700_000_000_000]),
        "headers": st.none() | st.lists(ENTRY, max_size=3),
    }
)


def batch_of(rows: list[dict[str, Any]], *, is_large: bool) -> Any:
    """Return rows with numbers as their values."""
    return pa.record_batch(
        {
            "value": pa.array([b"%d" % n for n in range(len(rows))], pa.binary()),
            "topic": pa.array(
                [row["topic"] for row in rows], pa.large_string() if is_large else pa.string()
            ),
            "partition": pa.array([row["partition"] for row in rows], pa.int32()),
            "timestamp": pa.array(
                [row["timestamp"] for row in rows], pa.timestamp("ms", "UTC")
            ).cast(pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [row["headers"] for row in rows], LARGE_HEADERS if is_large else HEADERS
            ),
        }
    )


def fault_by_reading(row: dict[str, Any]) -> RowFault | None:
    """Return the first fault of a row."""
    entries = row["headers"] or []
    found = (
        (RowFault.NULL_TOPIC, row["topic"] is None),
        (RowFault.ILLEGAL_TOPIC, row["topic"] is not None and bool(name_fault(row["topic"]))),
        (RowFault.NEGATIVE_PARTITION, (row["partition"] or 0) < 0),
        (RowFault.EARLY_TIMESTAMP, (row["timestamp"] or 0) < 0),
        (RowFault.NULL_HEADER, None in entries),
        (RowFault.NULL_HEADER_KEY, any(e is not None and e["key"] is None for e in entries)),
    )
    return next((fault for fault, is_there in found if is_there), None)


@given(st.lists(ROW, max_size=12), st.integers(0, 3), st.booleans())
def test_faults_are_those_of_a_reading_row_by_row(
    rows: list[dict[str, Any]], begin: int, is_large: bool
) -> None:
    """Whatever else is wrong, of slices too; sound rows keep their order."""
    sound, rejected = reject(batch_of(rows, is_large=is_large).slice(begin))
    found: dict[bytes, RowFault | None] = dict.fromkeys(sound.column("value").to_pylist())
    assert list(found) == sorted(found, key=int)
    for each in rejected:
        for row in as_rows(each.rows):
            found[row["value"]] = each.fault
            assert fault_text(each.fault, row)
    assert found == {b"%d" % n: fault_by_reading(row) for n, row in enumerate(rows) if n >= begin}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (RowFault.NEGATIVE_PARTITION, "partition -3 is negative; null leaves it to the key"),
        (RowFault.EARLY_TIMESTAMP, "timestamp -5 ms is before 1970; null is now"),
        (RowFault.ILLEGAL_TOPIC, "topic name 'a b' has ' ' at index 1; only the characters"),
    ],
)
def test_a_fault_is_said_with_what_there_was(fault: RowFault, text: str) -> None:
    """The number or the name, and the allowed ones."""
    row = {"partition": -3, "timestamp": -5, "topic": b"a b"}
    assert fault_text(fault, row).startswith(text)


def test_names_that_are_not_utf8() -> None:
    """Spark's strings may hold any bytes: neither a topic nor a header's key may."""
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xffk")]
    )
    values = pa.array([b"v", b"v"])
    entries = pa.StructArray.from_arrays([bad, values], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries)
    sound, (rejected,) = reject(pa.record_batch({"value": values, "headers": headers}))
    assert (sound.num_rows, rejected.fault) == (1, RowFault.HEADER_KEY_NOT_UTF8)
    sound, (rejected,) = reject(pa.record_batch({"value": values, "topic": bad}))
    assert (sound.num_rows, rejected.fault) == (1, RowFault.ILLEGAL_TOPIC)
    assert "only the characters" in fault_text(rejected.fault, {"topic": b"\xff"})


def test_a_batch_without_faults_is_passed_on() -> None:
    """Nothing is copied."""
    batch = batch_of(
        [{"topic": "a", "partition": 1, "timestamp": 1, "headers": []}], is_large=False
    )
    sound, rejected = reject(batch)
    assert sound is batch
    assert rejected == []


def test_the_page_has_every_reason() -> None:
    """The table in the docs has the words of reports and dead letters."""
    page = (ROOT / "docs" / "spark.md").read_text("utf-8")
    table = page.partition("| reason | the row |")[2].partition("\n\n")[0]
    reasons = [each for line in table.splitlines() for each in re.findall(r"`(.+?)`", line[:80])]
    assert set(reasons) >= {fault.value for fault in RowFault}
