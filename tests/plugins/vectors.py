"""Golden bytes from outside: the JSON files in `tests/vectors`, as typed values."""

import json
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).parents[1] / "vectors"


class VectorRecord(NamedTuple):
    """A record as the client that made the vector has it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordVector(NamedTuple):
    """Encoded records from another client, and what they are."""

    client: str
    version: str
    name: str
    magic: int
    codec: int
    raw: bytes
    records: tuple[VectorRecord, ...]

    @property
    def label(self) -> str:
        """The text that pytest shows."""
        return f"{self.client}-{self.version}-{self.name}-v{self.magic}-codec{self.codec}"


def _content(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _record(row: list[Any]) -> VectorRecord:
    offset, timestamp_ms, key, value, headers = row
    pairs = tuple((name, _content(content)) for name, content in headers)
    return VectorRecord(offset, timestamp_ms, _content(key), _content(value), pairs)


def _read(path: Path) -> list[RecordVector]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return [
        RecordVector(
            client=document["client"].rpartition(":")[2],
            version=document["version"],
            name=row["name"].replace(" ", "_"),
            magic=row["magic"],
            codec=row["codec"],
            raw=bytes.fromhex(row["hex"]),
            records=tuple(_record(record) for record in row["records"]),
        )
        for row in document["vectors"]
    ]


def record_vectors(*magics: int) -> list[RecordVector]:
    """Return the vectors of the formats named, of all formats if none is."""
    found = [row for path in sorted(DIRECTORY.glob("records_*.json")) for row in _read(path)]
    return [row for row in found if not magics or row.magic in magics]
