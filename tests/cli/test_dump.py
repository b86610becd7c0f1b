"""`kprod dump` on files: what it prints, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.cli import dump as subject
from tests.cli import running
from tests.oracle import message_set, record_v2
from tests.plugins.vectors import DIRECTORY

KAFKA = json.loads((DIRECTORY / "dump_log_segments.json").read_text(encoding="utf-8"))
BATCH = record_v2.encode_batch([(5, b"k", b"v", [("h", b"x")])], codec=1)
NEXT = record_v2.encode_batch([(5, b"k", b"w", [])], base_offset=1)


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run the command."""
    return running.run("dump", *arguments, stdin=stdin)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment of two batches."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BATCH + NEXT)
    return path


def test_prints_what_kafkas_tool_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line, the head and the cut-off end included."""
    (tmp_path / "00000000000000000000.log").write_bytes(bytes.fromhex(KAFKA["hex"]))
    monkeypatch.chdir(tmp_path)
    result = run("--deep", "00000000000000000000.log")
    assert result.stdout.splitlines() == KAFKA["output"]
    assert result.exit_code == 0


def test_batches_only_without_deep(segment: Path) -> None:
    """Records are printed on demand."""
    result = run(str(segment))
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "Dumping",
        "Log",
        "baseOffset:",
        "baseOffset:",
    ]


def test_json_is_one_object_per_batch(segment: Path) -> None:
    """With its records when asked."""
    lines = [json.loads(line) for line in run("--json", "--deep", str(segment)).stdout.splitlines()]
    assert [line["baseOffset"] for line in lines] == [0, 1]
    assert [record["payload"] for line in lines for record in line["records"]] == ["v", "w"]
    assert lines[0]["log"] == str(segment)
    shallow = json.loads(run("--json", str(segment)).stdout.splitlines()[0])
    assert "records" not in shallow


def test_verify_of_a_sound_log(segment: Path) -> None:
    """It says how much was checked."""
    result = run("--verify", str(segment))
    assert result.exit_code == 0
    assert result.stderr == f"{segment}: 2 entries, 0 problems\n"


@pytest.mark.parametrize("style", [["--deep"], ["--json", "--deep"], []])
def test_verify_of_a_damaged_log(segment: Path, style: list[str]) -> None:
    """All that can be read is printed, the damage goes to standard error, the exit code is 1."""
    damaged = bytearray(BATCH + NEXT)
    damaged[len(BATCH) - 1] ^= 1
    segment.write_bytes(bytes(damaged))
    result = run("--verify", *style, str(segment))
    assert result.exit_code == 1
    assert f"{segment}: position 0: checksum is not" in result.stderr
    assert "2 entries, 1 problem\n" in result.stderr
    assert "false" in result.stdout
    assert '"baseOffset": 1' in result.stdout or "baseOffset: 1" in result.stdout


def test_verify_counts_a_cut_off_end(segment: Path) -> None:
    """Without --verify it is only said: a broker may be writing it."""
    segment.write_bytes(BATCH + NEXT[:-1])
    assert run(str(segment)).exit_code == 0
    result = run("--verify", str(segment))
    assert result.exit_code == 1
    assert f"position {len(BATCH)}: {len(NEXT) - 1} bytes of a cut-off entry" in result.stderr


def test_a_log_that_cannot_be_followed(segment: Path) -> None:
    """A file that is no log ends with 1, after the entries before."""
    segment.write_bytes(BATCH + b"\xff" * 100)
    result = run(str(segment))
    assert result.exit_code == 1
    assert f"position {len(BATCH)}" in result.stderr
    assert len(result.stdout.splitlines()) == 3


def test_records_that_cannot_be_read(segment: Path) -> None:
    """The entries behind are printed."""
    wrapper = message_set.encode_message((0, 0, None, b"no gzip"), magic=1, attributes=1)
    segment.write_bytes(wrapper + NEXT)
    result = run("--deep", "--json", str(segment))
    assert result.exit_code == 1
    assert [json.loads(line)["magic"] for line in result.stdout.splitlines()] == [1, 2]


def test_several_files_and_standard_input(segment: Path) -> None:
    """Each has its head; - is standard input."""
    result = run(str(segment), "-", stdin=BATCH)
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if line.startswith("Dumping")] == [
        f"Dumping {segment}",
        "Dumping -",
    ]


def test_windows_smaller_than_an_entry(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the file is read does not show."""
    expected = run("--deep", str(segment)).stdout
    monkeypatch.setattr(subject, "WINDOW_BYTES", 7)
    assert run("--deep", str(segment)).stdout == expected


def test_a_long_file_has_a_progress_bar(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, where that is a terminal; the printed text stays as it is."""
    expected = run("--deep", str(segment))
    assert not expected.stderr
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    assert not run("--deep", str(segment)).stderr
    monkeypatch.setattr(subject, "PROGRESS_BYTES_MIN", 1)
    shown = run("--deep", str(segment))
    assert segment.name in shown.stderr
    assert f"{segment.stat().st_size}/{segment.stat().st_size} bytes" in shown.stderr
    assert shown.stdout == expected.stdout


def test_a_missing_file_is_a_usage_error() -> None:
    """Exit code 2, as for every command used wrongly."""
    assert run("no-such-file").exit_code == 2
    assert run().exit_code == 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A topic of two partitions, with three records in the first and one in the second."""
    with EmbeddedCluster(1, {"orders": 2}) as running_cluster:
        with Producer(bootstrap_servers=running_cluster.bootstrap_servers) as producer:
            for partition, value in ((0, b"a"), (0, b"b"), (1, b"c"), (0, b"d")):
                producer.send("orders", value, partition=partition)
                producer.flush()
        yield running_cluster


def test_a_topic(cluster: EmbeddedCluster) -> None:
    """Partitions one after the other, each like a file."""
    result = run("--deep", "--verify", "-b", cluster.bootstrap_servers, "-t", "orders")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    heads = [line for line in lines if line.startswith("Dumping")]
    assert heads == ["Dumping orders-0", "Dumping orders-1"]
    payloads = [line.rpartition("payload: ")[2] for line in lines if line.startswith("|")]
    assert payloads == ["a", "b", "d", "c"]
    assert "orders-0: 3 entries, 0 problems" in result.stderr


def test_one_partition_of_a_topic(cluster: EmbeddedCluster) -> None:
    """As JSON, with positions from the first batch read."""
    result = run("--json", "-b", cluster.bootstrap_servers, "-t", "orders", "-p", "0")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["baseOffset"] for row in rows] == [0, 1, 2]
    assert [row["position"] for row in rows] == [0, rows[0]["size"], 2 * rows[0]["size"]]
    assert {row["log"] for row in rows} == {"orders-0"}


def test_a_topic_by_settings_from_a_file(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """As every command that talks to a cluster."""
    file = tmp_path / "client.toml"
    file.write_text(f'bootstrap_servers = "{cluster.bootstrap_servers}"\nlinger_ms = 5\n', "utf-8")
    result = run("-F", str(file), "-t", "orders", "-p", "1", "--deep")
    assert (result.exit_code, "payload: c" in result.stdout) == (0, True)


def test_a_cluster_that_is_away_is_told_at_once() -> None:
    """And not when the reader's time is over."""
    result = run("-b", "localhost:1", "-t", "orders")
    assert result.exit_code == 1
    assert result.stderr.startswith("kprod: no broker can be used: localhost:1: cannot connect")


def test_an_unknown_partition(cluster: EmbeddedCluster) -> None:
    """One line, exit code 1."""
    result = run("-b", cluster.bootstrap_servers, "-t", "orders", "-p", "7")
    assert result.exit_code == 1
    assert result.stderr.startswith("kprod: ")


@pytest.mark.parametrize("arguments", [[], ["-t", "orders"], ["-t", "orders", __file__]])
def test_files_or_a_topic(arguments: list[str]) -> None:
    """Not none, not both, and a topic has brokers."""
    assert run(*arguments).exit_code == 2
