"""`kprod consume` against the embedded broker."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kprod import Producer
from kprod.broker import EmbeddedCluster
from tests.cli import running

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Ten records in partition 0, two in partition 1."""
    with EmbeddedCluster(brokers=1, topics={"t": 2}) as made:
        with Producer(bootstrap_servers=made.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(
                    "t", b"v%d" % number, key=b"k", partition=0, timestamp_ms=1_000 + number
                )
            producer.send("t", b"\xff", headers=[("h", b"1"), ("h", None)], partition=1)
            producer.send("t", None, partition=1)
        yield made


def consume(cluster: EmbeddedCluster, *arguments: str) -> tuple[int, bytes, str]:
    """Exit code and both outputs."""
    result = running.run(
        "consume", "--bootstrap", cluster.bootstrap_servers, "--topic", "t", *arguments
    )
    return result.exit_code, result.stdout_bytes, result.stderr


def values(first: int, end: int) -> bytes:
    """Lines of partition 0."""
    return b"".join(b"v%d\n" % number for number in range(first, end))


@pytest.mark.parametrize(
    ("arguments", "first", "end"),
    [
        ([], 0, 10),
        (["--from", "4"], 4, 10),
        (["--from", "-3"], 7, 10),
        (["--from", "-30"], 0, 10),
        (["--from", "@1006"], 6, 10),
        (["--from", "@2000"], 10, 10),
        (["--from", "end"], 10, 10),
        (["--to", "3"], 0, 3),
        (["--from", "2", "--to", "5"], 2, 5),
        (["--from", "5", "--to", "5"], 5, 5),
        (["--from", "2", "--to", "-5"], 2, 5),
        (["--to", "@1004"], 0, 4),
        (["--from", "3", "--count", "2"], 3, 5),
    ],
)
def test_from_here_to_there(
    cluster: EmbeddedCluster, arguments: list[str], first: int, end: int
) -> None:
    """Places of both kinds; standard error has the count."""
    ends = [] if "--to" in arguments else ["--exit"]
    code, out, err = consume(cluster, "-p", "0", *arguments, *ends)
    assert (code, out) == (0, values(first, end))
    assert err == f"{end - first} {'record' if end - first == 1 else 'records'}\n"


def test_json_has_everything(cluster: EmbeddedCluster) -> None:
    """One line for each record, which `produce --json` reads."""
    code, out, _ = consume(cluster, "-p", "1", "--exit", "--format", "json")
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 1, 0)
    assert first["value"] == {"base64": "/w=="}
    assert first["headers"] == [["h", "1"], ["h", None]]
    assert second["value"] is None


def test_raw_with_keys_and_headers(cluster: EmbeddedCluster) -> None:
    """Delimiters as typed; null as it is told."""
    arguments = ("-K", r"\t", "-D", r"\0", "--headers", "--null", "NIL", "--exit")
    _, out, _ = consume(cluster, "-p", "1", *arguments)
    assert out == b"h=1,h=NIL\tNIL\t\xff\x00\tNIL\tNIL\x00"


def test_all_partitions(cluster: EmbeddedCluster) -> None:
    """By default."""
    code, out, err = consume(cluster, "--exit")
    assert (code, err) == (0, "12 records\n")
    assert sorted(out.splitlines()) == sorted([*values(0, 10).splitlines(), b"\xff", b""])


def test_silence_may_be_the_end(cluster: EmbeddedCluster) -> None:
    """With a timeout it does not follow for ever."""
    code, out, _ = consume(cluster, "-p", "0", "--timeout", "0.2")
    assert (code, out) == (0, values(0, 10))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--from", "yesterday"], "not a place"),
        (["-X", "group.id=g"], "without a group"),
        (["-g", "g", "-X", "group.id=h"], "unless --group names one"),
        (["-g", "g", "-p", "0"], "--partition reads partitions"),
        (["-g", "g", "--exit"], "--exit reads partitions"),
        (["-g", "g", "--from", "4"], "kprod groups reset"),
        (["-X", "nothing"], "NAME=VALUE"),
        (["--count", "0"], "count"),
    ],
)
def test_a_mistake_is_told(cluster: EmbeddedCluster, arguments: list[str], text: str) -> None:
    """In one line, before anything is read."""
    code, out, err = consume(cluster, *arguments)
    assert (code, out) == (2, b"")
    assert text in err


def test_a_group_continues_where_it_has_stopped(cluster: EmbeddedCluster) -> None:
    """Printed records are committed; others get the rest, by a pattern as well."""
    code, out, err = consume(cluster, "--group", "one", "--count", "5", "-D", "|")
    assert (code, out.count(b"|"), err) == (0, 5, "5 records\n")
    command = ("consume", "-b", cluster.bootstrap_servers, "-g", "one", "--timeout", "3")
    rest = running.run(*command, "-t", "^t", "-D", "|")
    assert (rest.exit_code, rest.stderr) == (0, "7 records\n")
    printed = sorted([*out.split(b"|"), *rest.stdout_bytes.split(b"|")])
    assert printed == sorted([*(b"v%d" % number for number in range(10)), b"\xff", b"", b"", b""])
    assert consume(cluster, "--group", "one", "--timeout", "1")[1] == b""


def test_a_new_group_may_begin_at_the_end(cluster: EmbeddedCluster) -> None:
    """The place counts for partitions without a committed offset."""
    arguments = ("--group", "late", "--from", "end", "--timeout", "1")
    assert consume(cluster, *arguments) == (0, b"", "0 records\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-t", "^("], "--topic: topic name '^(' has '^' at index 0"),
        (["-t", "a b"], "--topic: topic name 'a b' has ' ' at index 1"),
        (["-t", ""], "--topic: a topic's name must have at least 1 character"),
        (["-t", "^(", "-g", "one"], "--topic: the pattern '^(' is not a regular expression"),
        (["-t", "a b", "-g", "one"], "--topic: topic name 'a b' has ' ' at index 1"),
        (["-t", "t", "-g", ""], "--group is empty"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(arguments: list[str], text: str) -> None:
    """Told before any connection is made."""
    result = running.run("consume", "-b", "127.0.0.1:1", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_an_unknown_topic_is_an_error(cluster: EmbeddedCluster) -> None:
    """With its name."""
    result = running.run("consume", "-b", cluster.bootstrap_servers, "-t", "nowhere", "--exit")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("more", [[], ["--exit"]])
def test_an_unknown_partition_is_an_error(cluster: EmbeddedCluster, more: list[str]) -> None:
    """At once, and the text has those that there are."""
    code, out, err = consume(cluster, "-p", "0", "-p", "7", *more)
    assert (code, out) == (1, b"")
    assert err == "kprod: topic 't' has partitions 0 to 1, not 7\n0 records\n"


def test_count_is_over_all_partitions(cluster: EmbeddedCluster) -> None:
    """The first that arrive."""
    code, out, err = consume(cluster, "-p", "0", "-p", "1", "--count", "11", "-D", "|")
    assert (code, err) == (0, "11 records\n")
    assert out.count(b"|") == 11


def test_an_offset_that_is_not_in_the_log_is_an_error(cluster: EmbeddedCluster) -> None:
    """It is not changed silently; at the end of the log there is nothing to read."""
    code, out, err = consume(cluster, "-p", "0", "--from", "11", "--timeout", "5")
    assert (code, out) == (1, b"")
    assert "offset 11 is not in the log" in err
    assert consume(cluster, "-p", "0", "--from", "11", "--exit") == (0, b"", "0 records\n")


@pytest.mark.usefixtures("interruptible")
def test_it_follows_until_ctrl_c(cluster: EmbeddedCluster) -> None:
    """Later records are printed immediately."""
    command = [sys.executable, "-m", "kprod.cli", "consume", "-b", cluster.bootstrap_servers]
    with subprocess.Popen(
        [*command, "-t", "t", "-p", "0", "--from", "9"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"v9\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (130, b"", b"1 record\n")
