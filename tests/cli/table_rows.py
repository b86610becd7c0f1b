"""The rows of the page on the command line, with what they need in a directory.

Two rows run until they are ended: the broker's, and the one that follows a topic.

Thread-safety: functions of their arguments.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kprod import Producer
from tests.cli.terminal import LIMIT_S, terminal_of
from tests.docs.examples import ROOT
from tests.oracle import record_v2

ADDRESS = "localhost:9092"
BROKER, FOLLOW = "run a broker for tests", "follow a topic"
LOOKS_MAX = 1_000
READ = {
    "read a topic": "one\ntwo\nvalue\nNULL\nvalue\n\nv\n",
    "read some records": "two\nvalue\n",
    "read the last records": "v\n",
    "read committed records only": "one\ntwo\n",
}
"""Expected output of the rows that print only values, with any tool."""
_TITLE = "## Beside kcat and Kafka's own tools"
_CODE = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One row.

    Attributes:
        task: The task.
        own: The command of kprod.
        kcat: kcat's; empty if there is none.
        foreign: Kafka's; empty if there is none.
    """

    task: str
    own: str
    kcat: str
    foreign: str


def rows() -> Iterator[Row]:
    """Return all rows in their order, which is that of a topic's life."""
    page = (ROOT / "docs" / "command_line.md").read_text("utf-8")
    _, _, table = page.partition(_TITLE)
    for line in table.splitlines():
        if line.startswith("|") and "`kprod " in line:
            task, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            yield Row(task, *("".join(_CODE.findall(cell)[:1]) for cell in cells))


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


def follow(words: Sequence[str], address: str, topic: str) -> str:
    """Run a command that follows a topic, on a terminal, until it shows the later records.

    Args:
        words: The command.
        address: The cluster's. Records are sent again and again, since only the command knows when
            it has begun.
        topic: Topic to write to.

    Returns:
        Everything that the terminal has shown.
    """
    with Producer(bootstrap_servers=address) as producer, terminal_of(words) as person:
        for _ in range(LOOKS_MAX):
            producer.send(topic, b"later").result(LIMIT_S)
            person.look()
            if "later\r\n" in person.seen:
                break
        person.type("\x03")
        person.await_end()
    return person.seen
