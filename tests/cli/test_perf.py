"""`kprod perf` against embedded brokers: what it says is what they have."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster
from kprod.perf.workload import CLIENTS
from tests.cli import running

TOPIC = "load"
SUMMARY = re.compile(
    r"^(?P<count>\d+) (?P<steady>steady state )?records sent, (?P<rate>[\d.]+) records/sec"
    r" \([\d.]+ MB/sec\), (?P<avg>[\d.]+) ms avg latency, (?P<max>[\d.]+) ms max latency,"
    r" (?P<p50>[\d.]+) ms 50th, (?P<p95>[\d.]+) ms 95th, (?P<p99>[\d.]+) ms 99th,"
    r" (?P<p999>[\d.]+) ms 99\.9th\.$",
    re.MULTILINE,
)
STALL_S = 0.5


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers with a topic."""
    with EmbeddedCluster(2, {TOPIC: 4}) as cluster:
        yield cluster


def _options(cluster: EmbeddedCluster, *more: str) -> list[str]:
    return ["perf", "-b", cluster.bootstrap_servers, "-t", TOPIC, *more]


def _started(options: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kprod.cli", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _await_records(perf: subprocess.Popen[str]) -> None:
    """Read until an interval in which records were delivered is over."""
    assert perf.stdout is not None
    for line in perf.stdout:
        if not line.startswith("0 records sent"):
            return
    pytest.fail("it has ended")


def _values(cluster: EmbeddedCluster) -> list[bytes | None]:
    return [record.value for records in cluster.records(TOPIC).values() for record in records]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_sends_what_was_asked_for(client: str, cluster: EmbeddedCluster) -> None:
    """Every client sends records of that size, measures all latencies at a rate, and ends agree."""
    options = ("--num-records", "2000", "--record-size", "50", "--throughput", "4000")
    done = running.run(*_options(cluster, *options, "--client", client))
    assert (done.exit_code, done.stderr) == (0, "")
    values = _values(cluster)
    assert [len(value or b"") for value in values] == [50] * 2_000
    assert len(set(values)) > 1_900
    found = SUMMARY.search(done.stdout)
    assert found is not None
    assert found["count"] == "2000"
    assert float(found["p50"]) <= float(found["p95"]) <= float(found["p999"]) <= float(found["max"])
    assert "2000 measured (every record)" in done.stdout
    assert "end offsets grew by 2000, 2000 records delivered: they agree" in done.stdout


def test_batches_are_counted_as_the_broker_has_them(cluster: EmbeddedCluster) -> None:
    """Bytes of record batches are those in the log, and bytes of values those in the records."""
    done = running.run(*_options(cluster, "--num-records", "5000", "--record-size", "77"))
    batches = [batch for found in cluster.batches(TOPIC).values() for batch in found]
    log_bytes = sum(map(len, batches))
    assert f"record batches: {log_bytes} bytes sent, {5_000 * 77} bytes of values" in done.stdout
    assert f"{5_000} measured (every record)" in done.stdout


@pytest.mark.slow
def test_producers_share_the_load(cluster: EmbeddedCluster) -> None:
    """Each in a process of its own: together as many records, and each one's latency."""
    options = ("--num-records", "3001", "--payload-monotonic", "--producers", "3")
    done = running.run(*_options(cluster, *options, "--throughput", "6000"))
    assert done.exit_code == 0
    counts = sorted(map(int, filter(None, _values(cluster))))
    assert counts == sorted([*range(1_001), *range(1_000), *range(1_000)])
    assert "3001 measured (every record)" in done.stdout


def test_a_warm_up_has_a_line_of_its_own(cluster: EmbeddedCluster) -> None:
    """Everything, then the steady state, as Kafka's tool has it."""
    options = ("--num-records", "900", "--warmup-records", "300", "--record-size", "10")
    done = running.run(*_options(cluster, *options))
    found = [(match["count"], match["steady"]) for match in SUMMARY.finditer(done.stdout)]
    assert found == [("900", None), ("600", "steady state ")]


def test_a_file_is_replayed(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """In its order, from its begin again; with one partition the topic has that order."""
    cluster.create_topic("one", 1)
    file = tmp_path / "values"
    file.write_bytes(b"a;b;c")
    done = running.run(
        *("perf", "-b", cluster.bootstrap_servers, "-t", "one", "--num-records", "7"),
        *("--payload-file", str(file), "--payload-delimiter", ";", "--payload-order", "file"),
    )
    assert done.exit_code == 0
    values = [record.value or b"" for record in cluster.records("one")[0]]
    assert (len(values), b"".join(values)) == (7, b"abcabca")


@pytest.mark.slow
def test_clients_take_turns(cluster: EmbeddedCluster) -> None:
    """Round by round, then side by side."""
    done = running.run(
        *_options(cluster, "--num-records", "200", "--record-size", "10", "--rounds", "2"),
        *("--client", "kprod", "--client", "confluent-kafka"),
    )
    turns = re.findall(r"^== (.+)$", done.stdout, re.MULTILINE)
    assert turns == [
        "kprod, round 1 of 2",
        "confluent-kafka, round 1 of 2",
        "kprod, round 2 of 2",
        "confluent-kafka, round 2 of 2",
    ]
    table = done.stdout[done.stdout.index("client   ") :].splitlines()
    assert [line.split()[0] for line in table[1:5]] == ["kprod", "confluent-kafka"] * 2
    assert len(_values(cluster)) == 800


def test_the_topic_is_made_and_settings_come_from_a_file(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """As Kafka's `--command-config`; a setting that is typed wins."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\nlinger.ms=9\n", "utf-8")
    done = running.run(
        *("perf", "--command-config", str(file), "--command-property", "linger_ms=1", "-t", "new"),
        *("--partitions", "3", "--num-records", "30", "--record-size", "9", "--print-metrics"),
    )
    assert done.exit_code == 0
    assert sum(map(len, cluster.records("new").values())) == 30
    assert len(cluster.records("new")) == 3
    assert re.search(r"producer-metrics:record-send-total +: 30\.000", done.stdout)


@pytest.mark.slow
def test_the_report_is_one_file(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """Three plots inside, nothing fetched, no setting shown: one may be a password."""
    page = tmp_path / "report.html"
    perf = _started(
        [
            *_options(
                cluster, "--num-records", "2000", "--record-size", "10", "--throughput", "2000"
            ),
            *("-X", "client.id=secret-word", "--reporting-interval", "250"),
            *("--client", "kprod", "--client", "confluent-kafka", "--report", str(page)),
        ]
    )
    _, complaints = perf.communicate()
    assert (perf.returncode, complaints) == (0, "")
    text = page.read_text("utf-8")
    assert text.count("<svg") == 3
    assert not re.search(r"<script|(?:src|href)=\"(?!#)", text)
    assert "secret-word" not in text
    assert text.count("<td>agree</td>") == 2
    assert "<td>confluent-kafka</td><td>2,000</td>" in text
    assert "<dt>client</dt><dd>kprod, confluent-kafka</dd>" in text


@pytest.mark.slow
def test_a_stalled_broker_shows_in_every_record_that_was_due(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """The brokers hang for 500 ms, and `send` with them: its memory is soon full.

    Each record that was due in the first half of that time waited for at least the other half,
    however slow the machine is.
    """
    rate, seconds = 4_000, 4
    options = ("--num-records", str(rate * seconds), "--throughput", str(rate))
    memory = ("-X", "buffer.memory=65536", "-X", "batch.size=16384")
    latencies_file = tmp_path / "latencies"
    perf = _started(
        [
            *_options(cluster, *options, *memory, "--record-size", "100"),
            *("--reporting-interval", "500", "--latencies", str(latencies_file)),
        ]
    )
    _await_records(perf)
    cluster.call(lambda: threading.Event().wait(STALL_S))
    said, complaints = perf.communicate()
    assert (perf.returncode, complaints) == (0, "")
    latencies_s = [int(line) / 1e9 for line in latencies_file.read_text("ascii").splitlines()]
    assert len(latencies_s) == rate * seconds
    for wait_s in (0.1, 0.25, 0.4):
        due_count = int((STALL_S - wait_s) * rate)
        assert sum(latency_s >= wait_s for latency_s in latencies_s) >= due_count - 2
    found = SUMMARY.search(said)
    assert found is not None
    # An eighth of the records was due in the stall, so a tenth of them and more waited for 100 ms.
    assert float(found["p95"]) >= 100
    assert float(found["p999"]) >= 480
    assert float(found["max"]) == pytest.approx(max(latencies_s) * 1_000, abs=0.01)


@pytest.mark.parametrize("client", CLIENTS)
def test_ctrl_c_ends_in_order(client: str, cluster: EmbeddedCluster) -> None:
    """Sent records are delivered and counted; exit code 130."""
    options = ("--num-records", "100000000", "--record-size", "100", "--throughput", "2000")
    perf = _started(
        _options(cluster, *options, "--client", client, "--reporting-interval", "200"),
    )
    _await_records(perf)
    perf.send_signal(signal.SIGINT)
    said, complaints = perf.communicate()
    assert perf.returncode == 130, complaints
    assert "interrupted" in complaints
    found = SUMMARY.search(said)
    assert found is not None
    assert int(found["count"]) == len(_values(cluster)) > 0
    assert "they agree" in said


def test_a_killed_program_leaves_no_process(cluster: EmbeddedCluster) -> None:
    """Its processes find their standard input closed, and end by themselves."""
    options = ("--num-records", "100000000", "--record-size", "100", "--throughput", "1000")
    perf = _started(_options(cluster, *options, "--reporting-interval", "200"))
    _await_records(perf)
    children = _children_of(perf.pid)
    assert len(children) == 1
    perf.kill()
    perf.communicate()
    for _ in range(600):
        if not any(Path(f"/proc/{pid}").exists() for pid in children):
            return
        threading.Event().wait(0.05)
    pytest.fail(f"still there: {children}")


def _children_of(pid: int) -> list[int]:
    """Return the children of a process (Linux)."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if not listed.exists():
        pytest.skip(f"{sys.platform} does not list a process's children so")
    return [int(child) for child in listed.read_text("ascii").split()]


@pytest.mark.slow
def test_a_terminal_has_a_live_line(cluster: EmbeddedCluster) -> None:
    """On standard error, drawn over again and again; a pipe has none."""
    master, slave = os.openpty()
    perf = subprocess.Popen(
        [
            *(sys.executable, "-m", "kprod.cli"),
            *_options(cluster, "--num-records", "2000", "--record-size", "10"),
            *("--throughput", "2000", "--reporting-interval", "2000"),
        ],
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    said = b""
    try:
        while piece := os.read(master, 65_536):
            said += piece
    except OSError:  # EIO: the other side is closed
        pass
    os.close(master)
    stdout, _ = perf.communicate()
    assert perf.returncode == 0
    assert said.count(b"records/s") >= 2
    assert b"\r" not in stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "exactly one of --record-size, --payload-file and --payload-monotonic"),
        (("--record-size", "1", "--payload-monotonic"), "exactly one of"),
        (("--record-size", "1", "--warmup-records", "10"), "less than --num-records"),
        (("--record-size", "1", "--producers", "11"), "not be more than --num-records"),
        (("--record-size", "1", "-X", "linger"), "'linger' is not NAME=VALUE"),
        (("--record-size", "1", "-X", "lingr.ms=1"), "did you mean"),
        (("--record-size", "1", "--payload-delimiter", ""), "at least one character"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(options: Sequence[str], text: str) -> None:
    """One line, exit code 2."""
    begin = ("perf", "-b", "127.0.0.1:1", "-t", TOPIC, "--num-records", "10")
    done = running.run(*begin, *options)
    assert done.exit_code == 2
    assert text in done.stderr


def test_addresses_are_needed() -> None:
    """From an option or a file."""
    done = running.run("perf", "-t", TOPIC, "--num-records", "10", "--record-size", "1")
    assert (done.exit_code, "no brokers are named" in done.stderr) == (2, True)


@pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka", "kafka-python"])
def test_another_client_says_itself_what_it_does_not_know(
    client: str, cluster: EmbeddedCluster
) -> None:
    """Its process ends with its error, which is shown."""
    options = ("--num-records", "1", "--record-size", "1", "-X", "no.such.setting=1")
    done = running.run(*_options(cluster, *options, "--client", client))
    assert done.exit_code == 1
    assert f"the process of {client} ended with 1" in done.stderr
    assert re.search(r"no.such.setting", done.stderr)


def test_records_that_fail_are_told(cluster: EmbeddedCluster) -> None:
    """How many, why, and exit code 1."""
    cluster.create_topic("small", 1, settings={"max.message.bytes": "200"})
    done = running.run(
        *("perf", "-b", cluster.bootstrap_servers, "-t", "small", "--num-records", "5"),
        *("--record-size", "1000"),
    )
    assert done.exit_code == 1
    assert re.search(r"^failed: 5 × \w+: .+$", done.stdout, re.MULTILINE)
    assert "end offsets grew by 0, 0 records delivered: they agree" in done.stdout


def test_a_record_that_no_send_takes_ends_the_run(cluster: EmbeddedCluster) -> None:
    """The next one would meet the same: it is told once, and nothing is said to be sent."""
    options = ("--num-records", "1000", "--record-size", "2000000")
    done = running.run(*_options(cluster, *options))
    assert done.exit_code == 1
    assert re.search(r"^failed: 1 × RecordTooLarge", done.stdout, re.MULTILINE)
