"""The page on the command line: every row of its table is run, against an embedded cluster."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from tests.cli import running
from tests.cli.table_rows import ADDRESS, BROKER, FOLLOW, READ, Row, fill, follow, rows

ROWS = list(rows())
# Expected output or effect of each row.
SEEN = {
    "list topics": "orders\n",
    "log in": "orders\n",
    "make a topic": "made topic audit",
    "see a topic": "retention.ms  86400000  (topic)",
    "add partitions": "topic audit has 6 partitions",
    "change a setting": "changed 1 setting of topic audit",
    "remove a setting": "changed 1 setting of topic audit",
    "send lines": "2 records delivered, 0 failed",
    "send keys and values": "2 records delivered, 0 failed",
    "send null": "2 records delivered, 0 failed",
    "give each record its headers, time and partition": "1 record delivered, 0 failed",
    "send a file as one record": "1 record delivered, 0 failed",
    "see offsets": "  0          0       0         0        0             8\n",
    "see batches of a topic": "payload: one\n",
    "see a segment": "key: k payload: v",
    "set a group's offsets": "set 1 offset of group billing",
    "list groups": "billing\n",
    "see a group's members and lag": "  orders  0          0          8        8\n",
    "save a group's offsets": "orders,0,0\n",
    "delete a group's offsets of a topic": "deleted 1 offset of group billing",
    "delete a group": "deleted group billing",
    "delete a topic": "deleted topic audit",
    "read keys and values": "NULL:two\nkey:value\nkey:NULL\nkey:value\nkey:NULL\nk:v\n",
    "read headers": "\tNULL\n\tvalue\n\t\ntrace=1\tv\n",
    "read from a time": "one\ntwo\n",
    "read everything about each record": '"value": "v", "headers": [["trace", "1"]]}',
    "measure": "1000 records delivered: they agree",
    **READ,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A cluster with the topic that the rows send to."""
    with EmbeddedCluster(1, {"orders": 1}) as opened:
        yield opened


def test_every_row_is_run(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order; each prints what it is for, and the log has every record."""
    assert {row.task for row in ROWS} == {*SEEN, BROKER, FOLLOW}
    fill(tmp_path, cluster.bootstrap_servers)
    monkeypatch.chdir(tmp_path)
    for row in ROWS:
        if row.task not in {BROKER, FOLLOW}:
            _run(row, cluster.bootstrap_servers)
    records = cluster.records("orders")[0]
    assert [record.value for record in records] == [
        *(b"one", b"two", b"value", b"NULL", b"value", None, b"v", b"\x89PNG\r\n\x1a\n"),
    ]
    assert (records[6].timestamp_ms, records[6].headers) == (1_000, (("trace", b"1"),))


def _run(row: Row, address: str) -> None:
    program, *arguments = shlex.split(row.own.replace(ADDRESS, address))
    assert program == "kprod"
    result = running.run(*arguments)
    assert result.exit_code == 0, f"{row.own}: {result.output}"
    assert SEEN[row.task] in result.output, row.own


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_the_row_that_follows() -> None:
    """It prints records that are sent after it has begun."""
    (row,) = (row for row in ROWS if row.task == FOLLOW)
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        address = cluster.bootstrap_servers
        words = shlex.split(row.own.replace(ADDRESS, address))
        command = [sys.executable, "-m", "kprod.cli", *words[1:]]
        assert "later\r\n" in follow(command, address, "orders")


@pytest.mark.slow
def test_the_row_of_the_broker() -> None:
    """It prints the address that is asked for, and serves the topic; any free port here."""
    (row,) = (row for row in ROWS if row.task == BROKER)
    program, *arguments = shlex.split(row.own.replace("9092", "0"))
    assert program == "kprod"
    command = [sys.executable, "-u", "-m", "kprod.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        listed = running.run("topics", "list", "--json", "-b", address)
        process.terminate()
    assert '"topic": "orders", "partitions": 6' in listed.stdout
