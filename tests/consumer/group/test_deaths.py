"""Members that die, as processes of their own: no record is lost, and few are sent again.

Each process prints what it has processed. A member that is killed stays in its group until its
session ends; the tests end the session instead of waiting for that.
"""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster
from kprod.model import TopicPartition
from kprod.protocol.api import ApiKey
from tests.consumer.reading import consumer_of, fill, poll_until, wait_until

COUNT = 300
T0 = TopicPartition("t", 0)
TIMEOUT_S = 60.0  # ends a broken test

_HEAD = """
import os, sys, warnings
import kprod
settings = dict(bootstrap_servers={servers!r}, group_id="g", auto_offset_reset="earliest")
def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with records."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        fill(made, "t", COUNT)
        yield made


def start(cluster: EmbeddedCluster, body: str) -> "subprocess.Popen[str]":
    """A process that is a member."""
    script = _HEAD.format(servers=cluster.bootstrap_servers) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def processed(process: "subprocess.Popen[str]") -> list[int]:
    """The offsets that a process has said until its end."""
    try:
        out, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return [int(each) for each in out.split()]


def committed(cluster: EmbeddedCluster) -> int:
    """The group's offset; 0 without one."""
    found = cluster.group("g").offsets.get(T0)
    return 0 if found is None else found.offset


def rest(cluster: EmbeddedCluster) -> list[int]:
    """Return the offsets that the next member reads."""
    for member in cluster.group("g").members:
        cluster.expire_member("g", member.member_id)
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe("t")
        found = poll_until(consumer, lambda it: bool(it) and it[-1].offset == COUNT - 1)
    return [record.offset for record in found]


def check(cluster: EmbeddedCluster, before: list[int], again: int | None = None) -> None:
    """Nothing is lost, and as much is sent again as was not committed.

    Args:
        cluster: The group's.
        before: The offsets that the dead member has processed.
        again: Number of records that are sent again; None for any.
    """
    offset = committed(cluster)
    assert before == list(range(len(before)))
    assert offset <= len(before), "a record was committed and not processed"
    if again is not None:
        assert len(before) - offset == again
    assert rest(cluster) == list(range(offset, COUNT))


def test_killed_between_two_commits(cluster: EmbeddedCluster) -> None:
    """The records that were not committed are sent again."""
    body = """
        consumer = kprod.Consumer("t", **settings, enable_auto_commit=False)
        for record in consumer:
            say(record.offset)
            if record.offset == 99:
                consumer.commit()
            if record.offset == 149:
                sys.stdin.readline()
        """
    with start(cluster, body) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(150)]
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
    check(cluster, [int(line) for line in lines], again=50)


def test_killed_with_automatic_commits(cluster: EmbeddedCluster) -> None:
    """Nothing is committed that the application has not asked past."""
    body = """
        consumer = kprod.Consumer("t", **settings, auto_commit_interval_ms=10)
        for _ in range(15):
            for record in consumer.poll(10, 7):
                say(record.offset)
        sys.stdin.readline()
        """
    with start(cluster, body) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(50)]
        wait_until(lambda: committed(cluster) > 0, "an automatic commit")
        process.send_signal(signal.SIGKILL)
        before = [int(line) for line in (*first, *process.stdout)]
    check(cluster, before)


def test_an_exception_leaves_the_with_block(cluster: EmbeddedCluster) -> None:
    """The record in hand is sent again, and only that."""
    with start(
        cluster,
        """
        with kprod.Consumer("t", **settings) as consumer:
            for record in consumer:
                if record.offset == 120:
                    raise ZeroDivisionError
                say(record.offset)
        """,
    ) as process:
        check(cluster, processed(process), again=0)
        assert process.returncode == 1


@pytest.mark.parametrize(
    ("ends", "again"), [("consumer.close()", 0), ("pass", 10)], ids=["close", "exit"]
)
def test_an_end_in_order(cluster: EmbeddedCluster, ends: str, again: int) -> None:
    """A close says that the batch in hand is done; an exit with the consumer open does not."""
    with start(
        cluster,
        f"""
        consumer = kprod.Consumer("t", **settings)
        left = 100
        while left:
            for record in consumer.poll(10, min(left, 30)):
                say(record.offset)
                left -= 1
        {ends}
        """,
    ) as process:
        before = processed(process)
        assert process.returncode == 0
    assert not cluster.group("g").members, "it has left the group"
    check(cluster, before, again=again)


@pytest.mark.parametrize("how", ["poll", "iteration"])
def test_an_exit_in_the_middle_of_a_batch(cluster: EmbeddedCluster, how: str) -> None:
    """`sys.exit` and records that nobody has processed: they are sent to the next member."""
    records = "iter(lambda: consumer.poll(10, 30), None)" if how == "poll" else "[consumer]"
    with start(
        cluster,
        f"""
        consumer = kprod.Consumer("t", **settings)
        for batch in {records}:
            for record in batch:
                if record.offset == 100:
                    sys.exit(3)
                say(record.offset)
        """,
    ) as process:
        before = processed(process)
        assert process.returncode == 3
    assert before == list(range(100))
    assert not cluster.group("g").members, "it has left the group"
    check(cluster, before, again=10 if how == "poll" else 0)


def test_a_forked_child_sends_nothing(cluster: EmbeddedCluster) -> None:
    """It neither commits nor leaves; the parent reads on as the same member."""
    with start(
        cluster,
        """
        warnings.simplefilter("ignore", DeprecationWarning)
        consumer = kprod.Consumer("t", **settings, enable_auto_commit=False)
        before = len(consumer.poll(10, 100))
        member = consumer.group_metadata()
        if not os.fork():
            try:
                consumer.commit()
            except kprod.errors.ConsumerForked:
                consumer.close()
                sys.exit(0)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.wait()[1])
        assert code == 0 and consumer.group_metadata() == member
        for record in consumer.poll(10, 50):
            say(record.offset)
        consumer.commit()
        consumer.close()
        """,
    ) as process:
        after = processed(process)
        assert process.stderr is not None
        assert process.returncode == 0
    assert after == list(range(100, 150))
    assert committed(cluster) == 150
    assert rest(cluster) == list(range(150, COUNT))


@pytest.mark.parametrize("is_handled", [False, True])
def test_a_commit_whose_response_is_lost(cluster: EmbeddedCluster, *, is_handled: bool) -> None:
    """The member dies; the next one starts at either offset, and nothing is lost."""
    body = """
        consumer = kprod.Consumer("t", **settings, enable_auto_commit=False)
        for record in consumer.poll(10, 100):
            say(record.offset)
        sys.stdin.readline()
        consumer.commit()
        """
    with start(cluster, body) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        before = [int(process.stdout.readline()) for _ in range(100)]
        cluster.faults.drop(ApiKey.OFFSET_COMMIT, handled=is_handled)
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: not cluster.faults.pending(), "the commit")
        process.send_signal(signal.SIGKILL)
        process.wait(TIMEOUT_S)
    check(cluster, before, again=0 if is_handled else 100)
