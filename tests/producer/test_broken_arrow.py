"""Arrow arrays that are not what they declare: the error says what is wrong."""

import ctypes
import re
import zoneinfo
from typing import Any

import pytest

from kprod._core.json.json_rows import json_objects
from tests.fuzz.arrow_arrays import COLUMNS, Table
from tests.fuzz.arrow_target import seeds
from tests.producer.bench import TOPIC, Bench

VALUES, HEADERS = 0, 1  # the columns of both tables below
ROWS = 5


def bytes_and_headers() -> Table:
    """A sound table of large byte strings, and of lists of headers."""
    return Table(seeds()[2 * 5])


def views_and_texts() -> Table:
    """A sound table of large texts, and of views of texts."""
    return Table(seeds()[2 * 1])


def array_of(table: Table, *places: int) -> Any:
    """Return the structure of a column, or of one below it."""
    array = table.array
    for place in places:
        array = type(array).from_address(array.children[place])
    return array


def set_offset(array: Any, row: int, offset: int) -> None:
    """Write one offset of an array of large byte strings, or one of a list."""
    is_large = not array.n_children
    kind = ctypes.c_int64 if is_large else ctypes.c_int32
    kind.from_address(array.buffers[1] + row * ctypes.sizeof(kind)).value = offset


def rejection_of(table: Table) -> str:
    """Send a table; return why it was rejected."""
    bench = Bench()
    columns = {COLUMNS[field.name]: field.name for field in table.columns}
    with pytest.raises(ValueError, match="a broken Arrow array: ") as caught:
        bench.producer.send_arrow(TOPIC, table, **columns)
    return str(caught.value)


def json_rejection_of(table: Table) -> str:
    """Make JSON of a table; return why it was rejected."""
    with pytest.raises(ValueError, match="a broken Arrow array: ") as caught:
        json_objects(table, zoneinfo.ZoneInfo)
    return str(caught.value)


def test_missing_buffers_are_not_a_wrong_number_of_them() -> None:
    """Their number may be right where there are none."""
    table = views_and_texts()
    column = array_of(table, VALUES)
    column.buffers = None
    assert "'v' declares 3 buffers, and has none" in rejection_of(table)
    assert "'v' declares 3 buffers, and has none" in json_rejection_of(table)
    column.n_buffers = 2
    assert "'v' has 2 buffers instead of 3" in rejection_of(table)


def test_missing_columns_are_not_a_wrong_number_of_them() -> None:
    """As for buffers."""
    table = views_and_texts()
    table.array.children = None
    assert "it declares 2 columns, and has none" in rejection_of(table)
    assert "'the table' declares 2 arrays, and has none" in json_rejection_of(table)
    table.array.n_children = 1
    assert "'the table' has 2 fields, and arrays for 1 of them" in json_rejection_of(table)


@pytest.mark.parametrize(("row", "offset"), [(0, -1), (3, -1), (3, 1), (3, 1 << 40), (ROWS, 1)])
def test_a_negative_offset_is_not_said_to_decrease(row: int, offset: int) -> None:
    """One text holds for all of them, of byte strings and of lists."""
    text = "the offsets of 'v' are negative, or decrease"
    table = bytes_and_headers()
    set_offset(array_of(table, VALUES), row, offset)
    assert text in rejection_of(table)


@pytest.mark.parametrize(("row", "offset"), [(0, -1), (3, -1), (3, 1), (3, 1 << 30), (ROWS, 1)])
def test_nor_is_one_of_a_list(row: int, offset: int) -> None:
    """In headers and in JSON."""
    text = "the offsets of 'h' are negative, or decrease"
    table = bytes_and_headers()
    set_offset(array_of(table, HEADERS), row, offset)
    assert text in rejection_of(table)
    assert text in json_rejection_of(table)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_list_has_one_array_of_items(count: int) -> None:
    """Neither none nor two, and it is there."""
    table = bytes_and_headers()
    column = array_of(table, HEADERS)
    column.n_children = count
    if count == 1:
        column.children = None
    assert "'h' does not have one array of items" in rejection_of(table)
    assert "'h' does not have one array of items" in json_rejection_of(table)


def test_rows_that_are_missing_and_rows_past_all_bounds() -> None:
    """Each is told apart."""
    table = views_and_texts()
    column = array_of(table, VALUES)
    column.length = ROWS - 2
    assert "'v' has length 3, and 5 from row 0 on are needed" in rejection_of(table)
    column.length = 1 << 62
    assert re.search(r"'v' has length \d+ and offset 0, .* each is 0 to \d+", rejection_of(table))
