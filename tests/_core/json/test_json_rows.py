"""JSON of Arrow columns, held to Python's own: digits, decimals, times, texts, nested values."""

import base64
import datetime as dt
import decimal
import json
import math
import struct
import sys
import threading
import zoneinfo
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprod._core.json.json_rows import json_objects

TEXTS = st.text(alphabet=st.characters(codec="utf-8"))
NEW_YORK = "America/New_York"


def written(rows: pa.RecordBatch) -> list[bytes]:
    """Return each row's text."""
    offsets, texts = json_objects(
        rows, lambda name: 0 if name == "UTC" else zoneinfo.ZoneInfo(name)
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    array = pa.Array.from_buffers(pa.large_binary(), rows.num_rows, buffers)
    array.validate(full=True)
    found: list[bytes] = array.to_pylist()
    return found


def values(column: Any) -> list[str]:
    """Return the text of each value of a column without nulls."""
    rows = written(pa.record_batch({"x": column}))
    assert all(row.startswith(b'{"x":') for row in rows)
    return [row[5:-1].decode() for row in rows]


def digits_of(text: str) -> str:
    """Return a number's significant digits."""
    mantissa = text.lower().lstrip("-").partition("e")[0]
    return mantissa.replace(".", "").strip("0")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_doubles_have_the_fewest_digits(numbers: list[float]) -> None:
    """Those of Python, and they read back the same."""
    for number, text in zip(numbers, values(pa.array(numbers, pa.float64())), strict=True):
        assert float(text).hex() == number.hex()
        assert digits_of(text) == digits_of(repr(number))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
def test_doubles_of_any_bits(bits: list[int]) -> None:
    """Also the smallest, which are not what a strategy of floats likes best."""
    numbers = [struct.unpack("<d", each.to_bytes(8, "little"))[0] for each in bits]
    numbers = [number for number in numbers if math.isfinite(number)]
    for number, text in zip(numbers, values(pa.array(numbers, pa.float64())), strict=True):
        assert float(text).hex() == number.hex()
        assert digits_of(text) == digits_of(repr(number))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_have_digits_of_their_own(numbers: list[float]) -> None:
    """Fewer than the double of the same value needs."""
    column = pa.array(numbers, pa.float32())
    for number, text in zip(numbers, values(column), strict=True):
        assert struct.unpack("f", struct.pack("f", float(text)))[0] == number
        assert len(digits_of(text)) <= 9


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.0, "3.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (1.5e-300, "1.5E-300"),
        (5e-324, "5.0E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (math.nan, '"NaN"'),
    ],
)
def test_the_form_of_a_double(number: float, text: str) -> None:
    """It is Java's."""
    assert values(pa.array([number])) == [text]


@given(
    st.integers(0, 38).flatmap(
        lambda scale: st.tuples(
            st.just(scale),
            st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1),
        )
    )
)
def test_decimals_are_written_as_python_writes_them(given_: tuple[int, list[int]]) -> None:
    """Java's BigDecimal has the same rule."""
    scale, numbers = given_
    with decimal.localcontext(prec=50):
        wanted = [decimal.Decimal(number).scaleb(-scale) for number in numbers]
        column = pa.array(wanted, pa.decimal128(38, scale))
        assert values(column) == [str(each) for each in wanted]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_whole_numbers(numbers: list[int]) -> None:
    """To the ends of 64 bits."""
    assert values(pa.array(numbers, pa.int64())) == [str(number) for number in numbers]


@given(st.lists(TEXTS, min_size=1))
def test_texts_read_back(texts: list[str]) -> None:
    """Whatever has to be escaped in them."""
    assert [json.loads(text) for text in values(pa.array(texts, pa.string()))] == texts


@given(st.lists(st.binary(max_size=40), min_size=1))
def test_bytes_that_are_no_utf_8_are_replaced(texts: list[bytes]) -> None:
    """As Python replaces it, but for halves of surrogate pairs, which are one fault each."""
    column = pa.array(texts, pa.binary()).view(pa.string())
    for text, found in zip(texts, values(column), strict=True):
        if b"\xed" not in text:
            assert json.loads(found) == text.decode(errors="replace")


def test_halves_of_surrogate_pairs() -> None:
    """One replacement for each whole one, as Java has it."""
    column = pa.array([b"A\xffB\xed\xa0\x80\xc3\xe2\x82C"]).view(pa.string())
    assert json.loads(values(column)[0]) == "A\ufffdB\ufffd\ufffd\ufffdC"


@given(st.lists(st.binary(max_size=40), min_size=1))
def test_bytes_are_base64(contents: list[bytes]) -> None:
    """With padding, and without line ends."""
    wanted = [f'"{base64.b64encode(each).decode()}"' for each in contents]
    assert values(pa.array(contents, pa.binary())) == wanted


@given(
    st.lists(
        st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1)),  # noqa: DTZ001 - Arrow's
        min_size=1,
    ),
    st.sampled_from([NEW_YORK, "Australia/Lord_Howe", "Africa/Monrovia", "Asia/Kathmandu"]),
)
def test_instants_are_local_to_the_zone(moments: list[dt.datetime], name: str) -> None:
    """At any time of its history, to the millisecond."""
    column = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", name))
    for moment, text in zip(moments, values(column), strict=True):
        local = moment.replace(tzinfo=dt.UTC).astimezone(zoneinfo.ZoneInfo(name))
        assert text == f'"{local.isoformat(timespec="milliseconds")}"'.replace("+00:00", "Z")


@given(st.lists(st.dates(), min_size=1))
def test_dates(days: list[dt.date]) -> None:
    """Dates of the proleptic Gregorian calendar."""
    assert values(pa.array(days)) == [f'"{day.isoformat()}"' for day in days]


@pytest.mark.parametrize(
    ("day", "text"),
    [(2932897, '"+10000-01-01"'), (-719528, '"0000-01-01"'), (-719893, '"-0001-01-01"')],
)
def test_years_out_of_pythons_range(day: int, text: str) -> None:
    """As Java writes them."""
    assert values(pa.array([day], pa.int32()).cast(pa.date32())) == [text]


def test_instants_at_the_ends_of_their_type() -> None:
    """Far outside every calendar, and no fault."""
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array([-(2**63), 2**63 - 1], pa.int64()).cast(pa.timestamp(unit, NEW_YORK))
        assert all(text.startswith(('"+', '"-', '"1', '"2')) for text in values(column))


def test_only_what_json_has_a_form_for() -> None:
    """Other types are rejected, named by their column."""
    for kind in (pa.uint64(), pa.duration("us"), pa.time64("us"), pa.decimal256(50, 2)):
        with pytest.raises(TypeError, match="column 'odd'"):
            written(pa.record_batch({"odd": pa.nulls(1, kind)}))
    with pytest.raises(TypeError, match="cast them"):
        written(pa.record_batch({"odd": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))}))


def test_only_tables_have_rows() -> None:
    """The error says what was given instead."""
    with pytest.raises(TypeError, match="not of an array in Arrow's format 'l'"):
        json_objects(pa.array([1]), zoneinfo.ZoneInfo)


def test_too_deep() -> None:
    """Nesting is bounded, since each level is a call."""
    column = pa.array([1])
    for _ in range(200):
        column = pa.StructArray.from_arrays([column], names=["x"])
    with pytest.raises(TypeError, match="levels deep"):
        written(pa.record_batch({"x": column}))


def test_names_are_escaped() -> None:
    """And may be there twice, as JSON allows."""
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=['a"b', 'a"b'])
    assert written(rows) == [b'{"a\\"b":1,"a\\"b":2}']


def test_slices_of_nested_columns() -> None:
    """Rows before a slice, of the table, a list and a struct, are not in it."""
    inner = pa.array([{"a": n, "b": [n, None] * (n % 3)} for n in range(20)])
    rows = pa.record_batch({"s": inner, "l": pa.array([[n] * (n % 4) for n in range(20)])})
    whole = written(rows)
    for begin in range(20):
        assert written(rows.slice(begin, 5)) == whole[begin : begin + 5]
    parts = pa.StructArray.from_arrays([inner.slice(3, 10)], names=["p"]).slice(2)
    assert [json.loads(each)["x"]["p"]["a"] for each in written(pa.record_batch({"x": parts}))] == [
        *range(5, 13)
    ]


def test_a_long_text_grows_the_buffer() -> None:
    """A text of which every byte is escaped."""
    text = "\x01" * 1_000_000
    assert json.loads(values(pa.array([text, "", text]))[2]) == text


def test_the_gil_is_released() -> None:
    """Another thread runs while rows are written."""
    rows = pa.record_batch({"x": pa.array([1.1] * 2_000_000)})
    counted = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.wait(0.0001):
            counted += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1_000)  # nobody is asked to give the GIL up
    try:
        thread = threading.Thread(target=count)
        written(rows.slice(0, 1))
        thread.start()
        before = counted
        json_objects(rows, lambda _: 0)
        assert counted > before
    finally:
        is_over.set()
        sys.setswitchinterval(interval)
        thread.join()
