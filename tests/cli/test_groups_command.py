"""`kprod groups` at an embedded cluster: what scripts read, and what people are told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kprod import Producer
from kprod.broker import EmbeddedCluster
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode
from tests.admin.group_makers import commit, join, leave
from tests.cli import running
from tests.conformance.group_crew import Crew


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """A broker and a topic with three records in its first partition, a second apart each."""
    with EmbeddedCluster(1, {"orders": 2}) as opened:
        with Producer(bootstrap_servers=opened.bootstrap_servers) as producer:
            for second in range(3):
                at = 1_700_000_000_000 + second * 1_000
                producer.send("orders", b"x", partition=0, timestamp_ms=at).result(30)
        yield opened


@pytest.fixture
def crew(cluster: EmbeddedCluster) -> Iterator[Crew]:
    """A group with a member that has both partitions, and an offset of the first."""
    commit(cluster.bootstrap_servers, "billing", {("orders", 0): 1})
    joined = join(cluster.bootstrap_servers, "orders", group_id="billing")
    yield joined
    joined.close()


def groups(cluster: EmbeddedCluster, *arguments: str) -> Result:
    """Run a command on a cluster."""
    command, *rest = arguments
    return running.run("groups", command, "-b", cluster.bootstrap_servers, *rest)


def lines(result: Result) -> list[Any]:
    """The JSON of a command."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_groups_are_listed(cluster: EmbeddedCluster, crew: Crew) -> None:
    """One a line, sorted; by state and type where that is asked for."""
    commit(cluster.bootstrap_servers, "audit", {("orders", 0): 1})
    assert groups(cluster, "list").stdout == "audit\nbilling\n"
    assert groups(cluster, "list", "--state", "stable").stdout == "billing\n"
    assert groups(cluster, "list", "--state", "empty", "--state", "dead").stdout == "audit\n"
    assert not groups(cluster, "list", "--type", "consumer").stdout
    long = groups(cluster, "list", "-l").stdout
    assert long == "audit\tEmpty\tclassic\t-\nbilling\tStable\tclassic\tconsumer\n"
    assert lines(groups(cluster, "list", "--json"))[1] == {
        "group": crew.group_id,
        "state": "Stable",
        "type": "classic",
        "protocol_type": "consumer",
        "coordinator": 0,
    }


def test_a_broker_that_does_not_list_is_named(cluster: EmbeddedCluster) -> None:
    """The exit code says that the list is not whole."""
    cluster.faults.fail_next(ApiKey.LIST_GROUPS, ErrorCode.UNKNOWN_SERVER_ERROR, times=2)
    for arguments in (["list"], ["describe", "--all"]):
        result = groups(cluster, *arguments)
        assert result.exit_code == 1
        assert "kprod: broker 0 has not told its groups: UNKNOWN_SERVER_ERROR" in result.stderr


def test_a_group_is_described(cluster: EmbeddedCluster, crew: Crew) -> None:
    """Members with their partitions; partitions with offsets, log ends, lag and member."""
    address = cluster.bootstrap_servers
    text = groups(cluster, "describe", "billing").stdout.splitlines()
    member = crew.ids["A"]
    (client,) = cluster.group("billing").members
    assert text[0] == (
        f"billing: Stable, 1 member, protocol consumer, assignor range, coordinator 0 ({address})"
    )
    assert [line.split() for line in text[1:]] == [
        ["member", "client", "id", "host", "partitions"],
        [member, client.client_id or "''", client.client_host, "orders:0,1"],
        ["topic", "partition", "committed", "log", "end", "lag", "member"],
        ["orders", "0", "1", "3", "2", member],
        ["orders", "1", "-", "0", "-", member],
    ]
    (described,) = lines(groups(cluster, "describe", "billing", "--json"))
    host, _, port = address.rpartition(":")
    assert described["coordinator"] == {"id": 0, "host": host, "port": int(port)}
    (told,) = described["members"]
    assert (told["member_id"], told["topics"]) == (member, ["orders"])
    assert told["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert described["offsets"][0] == {
        "topic": "orders",
        "partition": 0,
        "committed": 1,
        "leader_epoch": -1,
        "metadata": "",
        "log_start": None,
        "log_end": 3,
        "lag": 2,
        "member_id": member,
    }
    assert groups(cluster, "describe", "--all").stdout.splitlines() == text


def test_static_members_have_a_column(cluster: EmbeddedCluster) -> None:
    """The instance's id beside the member's."""
    crew = join(cluster.bootstrap_servers, "orders", instance="desk-1")
    head, row = groups(cluster, "describe", crew.group_id).stdout.splitlines()[1:3]
    assert head.split()[:2] == ["member", "instance"]
    assert row.split()[1] == "desk-1"
    crew.close()


def test_other_bytes_are_shown_by_their_size(cluster: EmbeddedCluster) -> None:
    """Neither a protocol of its own nor control characters do harm."""
    crew = join(
        cluster.bootstrap_servers,
        "orders",
        metadata=b"\xff\x1b[31m",
        assignment=b"\x1b[2J\xff",
        protocol_type="odd\x1b[31m",
        group_id="gr\x1b[31mo\nup",
    )
    result = groups(cluster, "describe", "gr\x1b[31mo\nup")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "protocol 'odd\\x1b[31m'" in result.stdout
    assert "(5 bytes of another protocol)" in result.stdout
    assert groups(cluster, "list").stdout == "'gr\\x1b[31mo\\nup'\n"
    assert lines(groups(cluster, "list", "--json"))[0]["group"] == crew.group_id
    crew.close()


def test_what_cannot_be_described_does_not_stop_the_rest(
    cluster: EmbeddedCluster, crew: Crew
) -> None:
    """Unknown groups are named; log ends that are not known are left out."""
    result = groups(cluster, "describe", "nope", crew.group_id)
    assert result.exit_code == 1
    assert "GROUP_ID_NOT_FOUND (code 69): the cluster has no group 'nope'" in result.stderr
    assert result.stdout.startswith("billing: Stable")
    cluster.faults.fail_next(ApiKey.LIST_OFFSETS, ErrorCode.UNKNOWN_SERVER_ERROR)
    result = groups(cluster, "describe", "billing")
    assert result.exit_code == 0
    assert "UNKNOWN_SERVER_ERROR" in result.stderr
    assert result.stdout.splitlines()[4].split()[2:5] == ["1", "-", "-"]


def test_offsets_are_saved_and_restored(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """As a table, as JSON, and as CSV, which a reset reads."""
    address = cluster.bootstrap_servers
    commit(address, "billing", {("orders", 0): 2, ("orders", 1): 0})
    table = [line.split() for line in groups(cluster, "offsets", "billing").stdout.splitlines()]
    assert table[1] == ["orders", "0", "2", "0", "3", "1", "-"]
    (row,) = lines(groups(cluster, "offsets", "billing", "--json", "-t", "orders:0"))
    assert (row["group"], row["committed"], row["log_start"], row["lag"]) == ("billing", 2, 0, 1)
    saved = groups(cluster, "offsets", "billing", "--csv").stdout
    assert saved == "orders,0,2\norders,1,0\n"
    file = tmp_path / "saved.csv"
    file.write_text(saved, "utf-8")
    commit(address, "billing", {("orders", 0): 0})
    restored = groups(cluster, "reset", "billing", "--from-file", str(file), "--execute", "--csv")
    assert (restored.stdout, restored.exit_code) == (saved, 0)
    assert groups(cluster, "offsets", "billing", "--csv").stdout == saved


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 3),
        (["--to-current"], 1),
        (["--to-offset", "0"], 0),
        (["--to-offset", "99"], 3),
        (["--shift-by", "1"], 2),
        (["--shift-by", "-9"], 0),
        (["--to-datetime", "2023-11-14T22:13:21.000"], 1),
        (["--to-datetime", "2023-11-15T00:13:21.001+02:00"], 2),
        (["--to-datetime", "2024-01-01"], 3),
        (["--by-duration", "P99999D"], 0),
        (["--by-duration", "PT1S"], 3),
    ],
)
def test_every_target(cluster: EmbeddedCluster, target: list[str], offset: int) -> None:
    """Without --execute nothing changes; with it the offsets are those that were shown."""
    commit(cluster.bootstrap_servers, "billing", {("orders", 0): 1})
    scope = ["reset", "billing", "--topic", "orders:0", *target, "--json"]
    shown = groups(cluster, *scope)
    assert lines(shown)[0]["offset"] == offset
    assert shown.stderr == "nothing is changed: give --execute to set offsets of group billing\n"
    assert groups(cluster, "offsets", "billing", "--csv").stdout == "orders,0,1\n"
    done = groups(cluster, *scope, "--execute")
    assert lines(done) == lines(shown)
    assert done.stderr == "set 1 offset of group billing\n"
    assert groups(cluster, "offsets", "billing", "--csv").stdout == f"orders,0,{offset}\n"


def test_a_reset_says_what_it_does(cluster: EmbeddedCluster) -> None:
    """Old offset, new offset, change, and offsets that the log does not have."""
    commit(cluster.bootstrap_servers, "billing", {("orders", 0): 1})
    text = groups(cluster, "reset", "billing", "-t", "orders", "--to-offset", "2").stdout
    assert [line.split() for line in text.splitlines()] == [
        ["topic", "partition", "committed", "new", "offset", "change"],
        ["orders", "0", "1", "2", "+1"],
        ["orders", "1", "-", "0", "-", "(the", "log", "has", "no", "2)"],
    ]


def test_a_group_with_members_is_not_reset(cluster: EmbeddedCluster, crew: Crew) -> None:
    """They are named, also in a dry run; one that joins meanwhile stops the commit."""
    for more in ([], ["--execute"]):
        result = groups(cluster, "reset", "billing", "--all-topics", "--to-earliest", *more)
        assert result.exit_code == 1
        assert f"group billing is Stable with 1 member: {crew.ids['A']} (client id" in result.stderr
    leave(crew)
    cluster.faults.fail_next(ApiKey.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID)
    result = groups(cluster, "reset", "billing", "--all-topics", "--to-earliest", "--execute")
    assert result.exit_code == 1
    assert "a member has joined group billing meanwhile" in result.stderr
    assert result.stderr.endswith("set 0 offsets of group billing\n")


def test_a_group_that_is_not_there_is_made_by_its_offsets(cluster: EmbeddedCluster) -> None:
    """As with Kafka's tool: an application that begins where it is told."""
    done = groups(cluster, "reset", "fresh", "-t", "orders", "--to-latest", "--execute")
    assert (done.exit_code, done.stderr) == (0, "set 2 offsets of group fresh\n")
    assert groups(cluster, "list").stdout == "fresh\n"


def test_groups_and_offsets_are_deleted(cluster: EmbeddedCluster, crew: Crew) -> None:
    """Others are told, and the exit code says so."""
    kept = groups(cluster, "delete", "billing", "-t", "orders", "-y")
    assert kept.exit_code == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in kept.stderr
    leave(crew)
    done = groups(cluster, "delete", "billing", "-t", "orders:0", "-t", "audit", "-y")
    assert done.exit_code == 1
    assert done.stderr == (
        "deleted 1 offset of group billing\nkprod: group 'billing' has no offsets of topic"
        " 'audit'\n"
    )
    done = groups(cluster, "delete", "nope", "billing", "--yes")
    assert done.exit_code == 1
    assert done.stderr == (
        "kprod: GROUP_ID_NOT_FOUND (code 69): group 'nope'\ndeleted group billing\n"
    )
    assert not groups(cluster, "list").stdout


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("orders,0\n", "line 1 has not the form TOPIC,PARTITION,OFFSET"),
        ("orders,0,1\n\norders,x,1\n", "line 3 has 'x', which is no number from 0 to 2147483647"),
        ("orders,0,-1\n", "has '-1', which is no number"),
        ("orders,0,9223372036854775808\n", "which is no number from 0 to 9223372036854775807"),
        ("ord ers,0,1\n", "line 1 names no topic"),
        ("other,orders,0,1\n", "has no row of group 'billing'"),
        ("", "has no row of group"),
        ("\udcff", "codec can't decode"),
    ],
)
def test_a_file_that_is_no_table_of_offsets(
    cluster: EmbeddedCluster, tmp_path: Path, rows: str, fault: str
) -> None:
    """The line and the fault; nothing is asked of the cluster."""
    file = tmp_path / "offsets.csv"
    file.write_bytes(rows.encode("utf-8", "surrogateescape"))
    result = groups(cluster, "reset", "billing", "--from-file", str(file), "--execute")
    assert result.exit_code == 2
    assert fault in result.stderr
    assert not groups(cluster, "list").stdout


def test_a_file_may_name_groups(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The rows of this one are taken, and of the topics that are asked for."""
    file = tmp_path / "offsets.csv"
    file.write_text("other,orders,0,1\nbilling,orders,0,2\nbilling,orders,1,0\n", "utf-8")
    scope = ["reset", "billing", "--from-file", str(file), "-t", "orders:0", "--csv"]
    assert groups(cluster, *scope).stdout == "orders,0,2\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["delete", "billing"], "nobody can be asked here: give --yes"),
        (["describe"], "give groups, or --all"),
        (["describe", "billing", "--all"], "give groups, or --all"),
        (["list", "--state", "Odd"], "'Odd' is not one of"),
        (["offsets", "billing", "--json", "--csv"], "give --json or --csv, not both"),
        (["reset", "billing", "-t", "orders"], "give one of --to-earliest, --to-latest"),
        (["reset", "billing", "-t", "orders", "--to-earliest", "--to-offset", "0"], "give one of"),
        (["reset", "billing", "--to-earliest"], "give the topics to reset as --topic"),
        (["reset", "g", "-t", "x y", "--to-latest"], "only the characters"),
        (["reset", "g", "-t", "orders:", "--to-latest"], "'orders:' is not TOPIC or TOPIC:0,1"),
        (["reset", "g", "-t", "orders:1,b", "--to-latest"], "'b' is no partition"),
        (["reset", "g", "--all-topics", "--by-duration", "1h"], "is no duration of ISO 8601"),
        (["reset", "g", "--all-topics", "--to-datetime", "soon"], "'soon' is no time"),
        (["reset", "g", "--all-topics", "--to-datetime", "1969-12-31T23:59:59"], "is before 1970"),
        (["reset", "g", "--all-topics", "--to-offset", "-1"], "-1 is not in the range"),
    ],
)
def test_wrong_usage(cluster: EmbeddedCluster, arguments: list[str], text: str) -> None:
    """Exit code 2, and nothing is done."""
    result = groups(cluster, *arguments)
    assert result.exit_code == 2, result.output
    assert text in result.stderr


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("orders:7", "topic 'orders' has partitions 0 to 1, not 7"),
        ("nope", "the cluster has no topic 'nope'"),
        ("nope:1", "the cluster has no topic 'nope'"),
    ],
)
def test_partitions_that_are_not_there(cluster: EmbeddedCluster, topic: str, text: str) -> None:
    """One line, and nothing is set for the others."""
    result = groups(
        cluster, *("reset", "billing", "-t", "orders:0", "-t", topic, "--to-latest", "--execute")
    )
    assert (result.exit_code, result.stderr) == (1, f"kprod: {text}\n")
    assert not groups(cluster, "list").stdout


def test_no_command_is_a_question() -> None:
    """Help is a response, and a misspelt command gets a hint."""
    result = running.run("groups")
    assert (result.exit_code, "Usage: kprod groups" in result.stdout) == (0, True)
    assert "did you mean describe?" in running.run("groups", "descibe").stderr
    assert "did you mean groups?" in running.run("lag").stderr
