"""The interpreter ends in every way it can, without `close`: nothing is lost unsaid, nothing hangs.

`os._exit` and a signal without handler are left out: no line of Python runs after them.

Each script sends, then ends; the broker's log and the script's standard error tell the rest. That
the end does not hang is watched by the script itself: an alarm is set when its exit handlers begin.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from kprod.protocol.api import ApiKey

pytestmark = pytest.mark.usefixtures("interruptible")

TIMEOUT_S = 90  # ends a broken test, never its rhythm
EXIT_FLUSH_S = 0.3  # where the broker does not answer
SLACK_S = 10.0  # for a busy machine, beyond the limit and its half second
COUNT = 200
LONG_ROUNDS = 20

# Runs before the exit handler of kprod, since handlers run in the opposite order of registration.
_PREAMBLE = """
import atexit, faulthandler, os, signal, sys, threading
early = []
atexit.register(lambda: [act() for act in early])  # after kprod's own handler
import kprod
import kprod.lifetime.open_clients as lifetime
lifetime.EXIT_FLUSH_S = {limit_s}
atexit.register(lambda: faulthandler.dump_traceback_later({deadline_s}, exit=True))
producer = kprod.Producer(bootstrap_servers={servers!r}, linger_ms=20_000)
producer.send("warm", b"").add_done_callback(lambda _: None)
def fill(count={count}, first=0):
    for number in range(first, first + count):
        producer.send("orders", b"%d" % number)
report = os.open({report!r}, os.O_WRONLY | os.O_CREAT, 0o600)
def note(count):
    os.pwrite(report, b"%-12d" % count, 0)
fill()
note({count})
"""

_DAEMONS = """
    def run():
        for number in range({count}, 100_000):
            producer.send("orders", b"%d" % number)
            note(number + 1)
            threading.Event().wait(0.0005)
    threading.Thread(target=run, daemon=True).start()
    threading.Event().wait(0.05)
"""

ENDINGS = {
    "the end of the script": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ('raise RuntimeError("the body failed")', 1),
    "SIGTERM with a handler": (
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        15,
    ),
    "Ctrl-C": ("os.kill(os.getpid(), signal.SIGINT)", -2),
    "exit handlers before and after": (
        """
        def late():
            try:
                producer.send("orders", b"late")
            except kprod.errors.ClosedError:
                print("rejected")
        early.append(late)
        atexit.register(fill, 100, {count})
        atexit.register(note, {count} + 100)
        """,
        0,
    ),
    "daemon threads that send": (_DAEMONS, 0),
    "a thread that outlives the script": (
        """
        def run():
            threading.main_thread().join()
            fill(100, {count})
            note({count} + 100)
        threading.Thread(target=run).start()
        """,
        0,
    ),
    "inside a callback": (
        """
        def stop(metadata, error):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            sys.exit(9)
        producer.send("orders", b"{count}", on_delivery=stop)
        note({count} + 1)
        try:
            producer._kprod.flush_soon()
            threading.Event().wait({limit_s})
        except KeyboardInterrupt:
            pass
        sys.exit(9)
        """,
        9,
    ),
}
"""The last action of a script, and its exit code."""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1, "warm": 1}) as running:
        yield running


def _end(
    cluster: EmbeddedCluster, ending: str, report: Path, limit_s: float
) -> subprocess.CompletedProcess[str]:
    facts = {
        "servers": cluster.bootstrap_servers,
        "limit_s": limit_s,
        "deadline_s": limit_s + 0.5 + SLACK_S,
        "count": COUNT,
        "report": str(report),
    }
    body = textwrap.dedent(ENDINGS[ending][0])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", (_PREAMBLE + body).format(**facts)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _values(cluster: EmbeddedCluster) -> list[bytes]:
    return [record.value or b"" for record in cluster.records("orders").get(0, [])]


def _check_delivered(cluster: EmbeddedCluster, ending: str, report: Path) -> None:
    before = len(_values(cluster))
    done = _end(cluster, ending, report, 20.0)
    assert done.returncode == ENDINGS[ending][1], done.stderr
    assert "not delivered" not in done.stderr
    values = _values(cluster)[before:]
    noted = int(report.read_text("ascii"))
    # A daemon thread may be stopped between its send and its note.
    assert len(values) - noted in ({0, 1} if "daemon" in ending else {0})
    assert values == [b"%d" % number for number in range(len(values))]
    assert (done.stdout == "rejected\n") == ("handlers" in ending)


def _check_counted(cluster: EmbeddedCluster, ending: str, report: Path) -> None:
    cluster.faults.drop(ApiKey.PRODUCE, times=1_000)
    done = _end(cluster, ending, report, EXIT_FLUSH_S)
    cluster.faults.clear()
    assert done.returncode == ENDINGS[ending][1], done.stderr
    told = re.findall(r"(\d+) records? w(?:ere|as) not delivered within", done.stderr)
    noted = int(report.read_text("ascii")) + 1  # and the one to the other topic
    assert len(told) == 1, done.stderr
    assert int(told[0]) - noted in ({0, 1} if "daemon" in ending else {0})


@pytest.mark.parametrize("ending", ENDINGS)
def test_records_of_an_unclosed_producer_are_delivered(
    cluster: EmbeddedCluster, ending: str, tmp_path: Path
) -> None:
    """Every accepted record arrives once and in order; the exit code is the script's own."""
    _check_delivered(cluster, ending, tmp_path / "noted")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["sys.exit", "daemon threads that send", "inside a callback"])
def test_what_cannot_be_delivered_is_counted(
    cluster: EmbeddedCluster, ending: str, tmp_path: Path
) -> None:
    """The broker does not answer: a warning has the true number, and the process ends."""
    _check_counted(cluster, ending, tmp_path / "noted")


@pytest.mark.long
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_twenty_times(cluster: EmbeddedCluster, ending: str, tmp_path: Path) -> None:
    """Both ways, again and again."""
    for turn in range(LONG_ROUNDS):
        _check_delivered(cluster, ending, tmp_path / f"delivered-{turn}")
        _check_counted(cluster, ending, tmp_path / f"counted-{turn}")


def _run(cluster: EmbeddedCluster, body: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    script = f"""
import atexit, faulthandler, os, signal, sys, threading
import kprod
import kprod.lifetime.open_clients as lifetime
lifetime.EXIT_FLUSH_S = {limit_s}
atexit.register(lambda: faulthandler.dump_traceback_later({limit_s + 0.5 + SLACK_S}, exit=True))
servers = {cluster.bootstrap_servers!r}
{textwrap.dedent(body)}"""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_callback_that_never_returns_holds_up_no_exit(cluster: EmbeddedCluster) -> None:
    """The sender is stuck in it: the exit waits its limit, and counts the records behind it."""
    done = _run(
        cluster,
        """
        producer = kprod.Producer(bootstrap_servers=servers)
        entered = threading.Event()
        def block(metadata, error):
            entered.set()
            threading.Event().wait()
        producer.send("orders", b"first", on_delivery=block)
        entered.wait(30)
        producer.send("orders", b"second")
        producer.send("orders", b"third")
        """,
        EXIT_FLUSH_S,
    )
    assert done.returncode == 0, done.stderr
    assert "2 records were not delivered within" in done.stderr


def test_ctrl_c_ends_the_exit_s_waiting_and_not_its_counting(cluster: EmbeddedCluster) -> None:
    """The broker does not answer, and the user is impatient."""
    cluster.faults.drop(ApiKey.PRODUCE, times=1_000)
    done = _run(
        cluster,
        """
        producer = kprod.Producer(bootstrap_servers=servers)
        producer.send("orders", b"lost")
        def later():
            threading.Event().wait(0.2)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=later, daemon=True).start()
        """,
        20.0,
    )
    assert "1 record was not delivered within" in done.stderr
    assert "KeyboardInterrupt" in done.stderr


def test_ctrl_c_twice_at_exit_ends_the_waiting_and_not_the_counting(
    cluster: EmbeddedCluster,
) -> None:
    """Each attempt to close is interrupted; the records are counted all the same."""
    cluster.faults.drop(ApiKey.PRODUCE, times=1_000)
    done = _run(
        cluster,
        """
        class Impatient(kprod.Producer):
            def close(self, timeout=None):
                super().close(0)
                raise KeyboardInterrupt
        producer = Impatient(bootstrap_servers=servers, linger_ms=20_000)
        for number in range(5):
            producer.send("orders", b"%d" % number)
        """,
        20.0,
    )
    assert "5 records were not delivered within" in done.stderr
    assert "KeyboardInterrupt" in done.stderr


def test_several_producers_share_one_limit(cluster: EmbeddedCluster) -> None:
    """Those that can deliver do so, though others before or after them cannot."""
    cluster.faults.drop(ApiKey.PRODUCE, times=1_000)
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as other:
        done = _run(
            cluster,
            f"""
            producers = []
            for number in range(6):
                address = servers if number % 2 else {other.bootstrap_servers!r}
                producers.append(kprod.Producer(bootstrap_servers=address, linger_ms=20_000))
                producers[-1].send("orders", b"%d" % number)
            """,
            1.0,
        )
        assert sorted(_values(other)) == [b"0", b"2", b"4"]
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("1 record was not delivered within") == 3


def test_a_producer_made_while_the_interpreter_ends_leaves_nothing(
    cluster: EmbeddedCluster,
) -> None:
    """Newer Pythons give it no thread: it raises, and its descriptors are closed."""
    done = _run(
        cluster,
        """
        def late():
            before = len(os.listdir("/proc/self/fd"))
            try:
                producer = kprod.Producer(bootstrap_servers=servers)
            except RuntimeError:
                print(len(os.listdir("/proc/self/fd")) - before)
            else:
                producer.send("orders", b"late").result(20)
                print(producer.close(20))
        atexit.register(late)
        """,
        20.0,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_name_is_looked_up_though_no_thread_is_given() -> None:
    """At exit the connection is gone and the broker has a name: the records arrive all the same."""
    config = EmbeddedConfig(host="localhost")
    with EmbeddedCluster(brokers=1, topics={"orders": 1}, config=config) as cluster:
        done = _run(
            cluster,
            """
            producer = kprod.Producer(bootstrap_servers=servers, linger_ms=0)
            producer.send("orders", b"first").result(60)
            def deny(*_, **__):
                raise RuntimeError("can't create new thread at interpreter shutdown")
            threading.Thread.start = deny
            producer._kprod.sender.call_soon(lambda: producer._kprod.client.disconnect(0))
            producer.send("orders", b"second").add_done_callback(lambda _: None)
            """,
            20.0,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert _values(cluster) == [b"first", b"second"]
