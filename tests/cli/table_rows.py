"""The rows of the page on the command line, with what they need in a directory.

Thread-safety: functions of their arguments.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.examples import ROOT
from tests.oracle import record_v2

ADDRESS = "localhost:9092"
_TITLE = "## Beside kcat and Kafka's own tools"
_CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One row.

    Attributes:
        task: What is to be done.
        own: The command of kprod.
        foreign: Kafka's; empty if there is none.
    """

    task: str
    own: str
    foreign: str


def rows() -> Iterator[Row]:
    """Return all rows in their order, which is that of a topic's life."""
    page = (ROOT / "docs" / "command_line.md").read_text("utf-8")
    _, _, table = page.partition(_TITLE)
    for line in table.splitlines():
        if line.startswith("|") and "`kprod " in line:
            task, own, _, foreign = (cell.strip() for cell in line.strip("|").split("|"))
            yield Row(task, *("".join(_CODE.findall(cell)[:1]) for cell in (own, foreign)))


def fill(directory: Path, address: str) -> None:
    """Write the files that the rows name."""
    (directory / "client.properties").write_text(f"bootstrap.servers={address}\n", "utf-8")
    (directory / "lines.txt").write_text("one\ntwo\n", "utf-8")
    (directory / "pairs.txt").write_text("key:value\nkey:NULL\n", "utf-8")
    (directory / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (directory / "records.jsonl").write_text(
        '{"topic": "orders", "partition": 0, "timestamp": 1000, "key": "k", "value": "v",'
        ' "headers": [["trace", "1"]]}\n',
        "utf-8",
    )
    segment = record_v2.encode_batch([(5, b"k", b"v", [("h", b"x")])])
    (directory / "00000000000000000000.log").write_bytes(segment)
