"""Rows as JSON objects, as Spark's `to_json` writes them: the value of `value.format=json`.

The text is written by compiled code, `kprod._core.json`. What differs from `to_json` on a Java
before 19: floating point numbers have the fewest digits that read back the same, as newer Javas
write them.

Thread-safety: pure functions.
Source: Spark 4.1 JacksonGenerator; java.time.ZoneId for the names of zones.
"""

import datetime as dt
import functools
import re
import zoneinfo
from typing import Any

import pyarrow as pa

from kprod._core.json.json_rows import json_objects as write_objects
from kprod.errors import ConfigError

__all__ = ["find_zone", "json_objects"]

_FIXED_ZONE = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")


def json_objects(rows: Any) -> Any:
    """Write one object per row.

    Args:
        rows: A pyarrow record batch; its columns become the objects' fields. Their types are
            those that `read_columns` lets pass.

    Returns:
        A binary array without nulls.

    Raises:
        ConfigError: A timestamp's time zone is not known here.
    """
    offsets, texts = write_objects(rows, find_zone)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_binary(), rows.num_rows, buffers)


@functools.cache
def find_zone(name: str) -> int | dt.tzinfo:
    """Find a session's time zone.

    Args:
        name: Name of the time zone, as in Spark's `spark.sql.session.timeZone`.

    Returns:
        Seconds from UTC, or a zone.

    Raises:
        ConfigError: There is no such zone on this machine.
    """
    fixed = _FIXED_ZONE.fullmatch(name)
    if name in {"UTC", "GMT", "UT", "Z"}:
        return 0
    if fixed is not None:
        sign, hours, minutes, seconds = fixed.groups(default="0")
        size = int(hours) * 3_600 + int(minutes) * 60 + int(seconds)
        return -size if sign == "-" else size
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"the session's time zone {name!r:.80} is not known where the rows are written: install"
            " the package tzdata there, or set spark.sql.session.timeZone to a name such as UTC"
        ) from error
