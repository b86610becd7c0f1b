"""The page on the command line: kcat's cells are run where it is installed."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli.table_rows import ADDRESS, FOLLOW, READ, fill, follow, rows
from tests.cli.terminal import LIMIT_S

ROWS = {row.task: row.kcat for row in rows() if row.kcat}
SEEN = {
    "list topics": 'topic "orders" with 1 partitions',
    "log in": 'topic "orders" with 1 partitions',
    "see a topic": 'topic "audit" with 3 partitions',
    "send lines": "",
    "send keys and values": "",
    "send null": "",
    "send a file as one record": "",
    "read keys and values": "NULL:two\nkey:value\nkey:NULL\nkey:value\nkey:NULL\nk:v\n",
    "read headers": "trace=1\tv\n",
    "read from a time": "one\ntwo\n",
    "read everything about each record": '"headers":["trace","1"],"key":"k","payload":"v"}',
    **READ,
}
"""The expected output of each cell."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]


def test_every_cell_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order; a row that kcat lacks is done otherwise."""
    assert set(ROWS) == {*SEEN, FOLLOW}
    monkeypatch.chdir(tmp_path)
    with EmbeddedCluster(1, {"orders": 1, "audit": 3}) as cluster:
        fill(tmp_path, cluster.bootstrap_servers)
        for task, cell in ROWS.items():
            if task == FOLLOW:
                continue
            prepare(task, cluster, tmp_path)
            words = shlex.split(cell.replace(ADDRESS, cluster.bootstrap_servers))
            done = subprocess.run(words, capture_output=True, timeout=LIMIT_S, check=False)
            assert done.returncode == 0, f"{cell}: {done.stderr!r}"
            assert SEEN[task] in done.stdout.decode(errors="replace"), cell


def prepare(task: str, cluster: EmbeddedCluster, directory: Path) -> None:
    """Give a cell what it needs: an empty value, and a record with headers and a time."""
    if task == "send null":
        (directory / "pairs.txt").write_text("key:value\nkey:\n", "utf-8")
    if task == "send a file as one record":
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"v", key=b"k", headers=[("trace", b"1")], timestamp_ms=1_000)


@pytest.mark.usefixtures("interruptible")
def test_the_row_that_follows() -> None:
    """It prints records that are sent after it has begun."""
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        address = cluster.bootstrap_servers
        words = shlex.split(ROWS[FOLLOW].replace(ADDRESS, address))
        assert "later\r\n" in follow(words, address, "orders")
