"""Processes that fork under load: the child raises at once, the parent loses and doubles nothing.

The script forks while its threads send; each child tries everything with its parent's producer, and
says by its exit code what went wrong. Some make a producer of their own, which must work.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster

TIMEOUT_S = 600  # ends a broken test, never its rhythm

_SCRIPT = """
import os, signal, sys, threading, traceback
import kprod
from kprod.errors import Persistence, ProducerForked

servers, forks = {servers!r}, {forks}
producer = kprod.Producer(bootstrap_servers=servers, linger_ms=2, buffer_memory=1 << 20)
producer.send("orders", b"warm").result(60)
stop = threading.Event()
sent = [0, 0]

def load(thread):
    while not stop.is_set():
        future = producer.send("orders", b"%d:%d" % (thread, sent[thread]))
        sent[thread] += 1
        if sent[thread] % 50 == 0:
            future.result(60)

def rejects(call):
    try:
        call()
    except ProducerForked as error:
        return error
    raise AssertionError(f"{{call}} was not rejected")

def child(number, pending, called):
    signal.alarm(60)  # a child that hangs is a failure
    rejects(lambda: producer.send("orders", b"child"))
    rejects(producer.flush)
    rejects(producer.purge)
    if pending.exception(0) is not None:
        assert rejects(lambda: pending.result(60)).persistence is Persistence.POSSIBLY_PERSISTED
        assert not called
    assert producer.close() == producer.close(0) == 0
    with producer:
        pass
    rejects(lambda: producer.send("orders", b"child"))
    if number % 10 == 0:
        with kprod.Producer(bootstrap_servers=servers) as own:
            own.send("orders", b"child:%d" % number).result(60)

threads = [threading.Thread(target=load, args=(n,)) for n in range(2)]
for thread in threads:
    thread.start()
failed = 0
for number in range(forks):
    called = []
    pending = producer.send("orders", b"main:%d" % number, on_delivery=lambda *_: called.append(1))
    pid = os.fork()
    if not pid:
        code = 1
        try:
            child(number, pending, called)
            code = 7
        except BaseException:
            traceback.print_exc()
        if number % 2:
            os._exit(code)
        sys.exit(code)
    failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7
    pending.result(60)
stop.set()
for thread in threads:
    thread.join()
print(failed, producer.close(60), *sent)
"""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, a topic of one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


def _script(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _check_forks(cluster: EmbeddedCluster, forks: int) -> None:
    script = _SCRIPT.format(servers=cluster.bootstrap_servers, forks=forks)
    failed, undelivered, *sent = map(int, _script(script).split())
    assert (failed, undelivered) == (0, 0)
    expected = Counter([b"warm"])
    for thread, count in enumerate(sent):
        expected.update(b"%d:%d" % (thread, number) for number in range(count))
    expected.update(b"main:%d" % number for number in range(forks))
    expected.update(b"child:%d" % number for number in range(0, forks, 10))
    assert Counter(record.value or b"" for record in cluster.records("orders")[0]) == expected


@pytest.mark.slow
def test_forks_under_load(cluster: EmbeddedCluster) -> None:
    """Some, with two threads that send."""
    _check_forks(cluster, 12)


@pytest.mark.long
def test_two_hundred_forks_under_load(cluster: EmbeddedCluster) -> None:
    """Enough to fork at any point of the sender's turn."""
    _check_forks(cluster, 200)


def test_a_fork_inside_a_callback(cluster: EmbeddedCluster) -> None:
    """The child is a copy of the sender's thread: it must not go near the parent's sockets."""
    printed = _script(
        f"""
import os, threading, kprod
producer = kprod.Producer(bootstrap_servers={cluster.bootstrap_servers!r}, linger_ms=0)
codes = []
def fork(metadata, error):
    pid = os.fork()
    if pid:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
producer.send("orders", b"forks", on_delivery=fork)
producer.flush(60)
futures = [producer.send("orders", b"%d" % number) for number in range(100)]
print(*codes, producer.close(60), sum(future.result().offset > 0 for future in futures))
""",
    )
    assert printed.split() == ["0", "0", "100"]
    values = [record.value for record in cluster.records("orders")[0]]
    assert values == [b"forks", *(b"%d" % number for number in range(100))]


def test_a_child_closes_its_copies_of_the_parent_s_descriptors(cluster: EmbeddedCluster) -> None:
    """Else a broker would never see the parent's connection end while the child lives."""
    printed = _script(
        f"""
import os, kprod
def descriptors():
    return len(os.listdir("/proc/self/fd"))
before = descriptors()
producer = kprod.Producer(bootstrap_servers={cluster.bootstrap_servers!r})
producer.send("orders", b"").result(60)
pid = os.fork()
if not pid:
    os._exit(descriptors() - before)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), producer.close(60))
""",
    )
    assert printed.split() == ["0", "0"]
