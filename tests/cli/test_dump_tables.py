"""`kprod dump` of a partition's directory: segments, their indexes, snapshots."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli import running

SETTINGS = {"internal.segment.bytes": "300", "index.interval.bytes": "0"}
RECORDS = 12


def run(*arguments: str) -> Result:
    """Run the command."""
    return running.run("dump", *arguments)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition's directory with several segments, as a broker left it."""
    with EmbeddedCluster(1, data_dir=tmp_path / "kept") as cluster:
        cluster.create_topic("orders", 1, settings=SETTINGS)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number).result(30)
    return tmp_path / "kept" / "orders-0"


def test_a_directory_is_printed_segment_by_segment(partition: Path) -> None:
    """Each segment, then its indexes, then the producers at its beginning."""
    result = run("--verify", str(partition))

    assert result.exit_code == 0, result.output
    heads = [it for it in result.stdout.splitlines() if it.startswith("Dumping")]
    suffixes = [Path(it.removeprefix("Dumping ")).suffix for it in heads]
    assert suffixes[:3] == [".log", ".index", ".timeindex"]
    assert suffixes.count(".log") == suffixes.count(".index") > 2
    assert suffixes.count(".snapshot") >= 2
    assert "lastSequence: 11 lastOffset: 11 offsetDelta: 0" in result.stdout


def test_every_entry_of_the_indexes_is_an_object_of_json(partition: Path) -> None:
    """Offsets are absolute, and every batch has one, since the interval is 0."""
    lines = [json.loads(it) for it in run("--json", str(partition)).stdout.splitlines()]

    of_index = [it for it in lines if it["log"].endswith(".index")]
    assert [it["offset"] for it in of_index] == list(range(RECORDS))
    batches = [it for it in lines if it["log"].endswith(".log")]
    assert [it["position"] for it in of_index] == [it["position"] for it in batches]
    times = [it for it in lines if it["log"].endswith(".timeindex")]
    assert all(it["timestamp"] > 1_600_000_000_000 for it in times)


@pytest.mark.parametrize("at", [3, 4, 7])
def test_a_wrong_entry_is_a_fault(partition: Path, at: int) -> None:
    """Only where it is asked for."""
    path = partition / f"{0:020d}.index"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)

    assert run(str(path)).exit_code == 0
    result = run("--verify", str(path))
    assert (result.exit_code, "no batch at position" in result.stderr) == (1, True)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_a_file_that_is_cut_off_is_a_fault(partition: Path, suffix: str) -> None:
    """Its whole entries are printed."""
    path = max(partition.glob(f"*{suffix}"))
    path.write_bytes(path.read_bytes()[:-1] + (b"" if suffix == ".snapshot" else b"\1\2"))

    result = run(str(path))

    assert result.exit_code == 1
    assert str(path) in result.stderr


def test_zeros_behind_the_entries_are_kafkas(partition: Path) -> None:
    """It makes the file of an active segment as large as it may grow."""
    path = partition / f"{0:020d}.index"
    before = run("--verify", str(path)).stdout
    path.write_bytes(path.read_bytes() + bytes(800))

    result = run("--verify", str(path))

    assert (result.exit_code, result.stdout) == (0, before)


def test_a_directory_of_another_kind_is_rejected(tmp_path: Path) -> None:
    """The broker's own directory has partitions, and no segments."""
    result = run(str(tmp_path))

    assert result.exit_code == 2
    assert "name the directory of one partition" in result.output
