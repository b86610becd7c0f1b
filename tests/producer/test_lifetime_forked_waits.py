"""A wait that a signal handler forks: the child's copy of it ends, the parent's continues.

The broker answers nothing before the child has ended; a child that hangs is ended by an alarm.
"""

import subprocess
import sys
from typing import NamedTuple

import pytest

from kprod.network import epoll_selector

TIMEOUT_S = 600  # ends a broken test, never its rhythm

_SCRIPT = """
import asyncio, os, signal, sys, threading, traceback
import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import KprodError

codes = []
parent = os.getpid()

def fork(number=None, frame=None):
    pid = os.fork()
    if pid:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        cluster.faults.resume(0)
    else:
        signal.alarm(20)

def interrupt():
    while not is_waiting():
        threading.Event().wait(0.001)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

def main_thread_is_in(name):
    return sys._current_frames()[threading.main_thread().ident].f_code.co_name == name

def lone_record():
    for _ in range(100):
        cluster.faults.resume(0)
        while sender.lone_count < 2 or direct_path._sender_lock.locked():
            lone = producer.send_many("orders", [b"v"])
            while not lone.done() or not producer._kprod.path.sender_sleeps:
                threading.Event().wait(0.001)
        cluster.faults.stall(0)
        made = producer.send("orders", b"a")
        if direct_path._response_wait.is_only_in_flight():
            return made
    leave("no lone record was written by its caller")

def records_from_it_on_after_a_fork(made):
    fork()
    offset = made.result().offset
    return len(cluster.records("orders")[0]) - offset

async def awaited(made):
    return await made

async def awaited_while_the_loop_forks(made):
    task = asyncio.create_task(awaited(made))
    await asyncio.sleep(0)
    fork()
    if os.getpid() == parent:
        return await task
    try:
        leave(await task)
    except KprodError as error:
        leave(type(error).__name__)  # without closing the loop, whose epoll is the parent's, too

def leave(outcome):
    print(outcome)
    sys.stdout.flush()
    os._exit(0)

cluster = EmbeddedCluster(brokers=1, topics={{"orders": 1}})
cluster.start()
producer = kprod.Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
signal.signal(signal.SIGUSR1, fork)
{before}
cluster.faults.stall(0)
made = {send}
((result, _),) = producer._kprod.accumulator.incomplete()
is_waiting = lambda: {is_waiting}
if {uses_signal}:
    threading.Thread(target=interrupt, daemon=True).start()
try:
    outcome = {ask}
except KprodError as error:
    outcome = type(error).__name__
if os.getpid() != parent:
    leave(outcome)
print(*codes, outcome, producer.close(60))
"""


class Wait(NamedTuple):
    """One way to wait: how, what the child and the parent get, and how the wait is noticed."""

    ask: str
    in_child: str
    in_parent: str
    is_waiting: str = "not result.has_no_observers()"
    send: str = 'producer.send("orders", b"a")'
    before: str = 'producer._kprod.support.open_topic("orders", 60_000)'


_RECEIPT = 'producer.send_many("orders", [b"a"])'
_UNTIL_THE_DIRECT_PATH_OPENS = """for _ in range(1_000):
    producer.send("orders", b"v").result(60)
    direct_path = producer._kprod.path.direct_path
    if direct_path.is_awaited and not direct_path._sender_lock.locked():
        break"""
# A receipt listens to its batch before it is waited for, so that does not tell.
_RECEIPT_WAITS = 'main_thread_is_in("wait_settled")'

WAITS = {
    "result": Wait("made.result().offset", "ProducerForked", "0"),
    "exception": Wait("type(made.exception()).__name__", "ProducerForked", "NoneType"),
    "wait": Wait("len(kprod.wait([made]).done)", "1", "1"),
    "failures_of": Wait("len(kprod.failures_of([made]))", "1", "0"),
    "flush": Wait("producer.flush()", "1", "0"),
    "close": Wait("producer.close()", "1", "0"),
    "a receipt": Wait("len(made.result())", "ProducerForked", "1", _RECEIPT_WAITS, send=_RECEIPT),
    "a wait at the socket": Wait(
        "made.result().partition",
        "ProducerForked",
        "0",
        "producer._kprod.path.direct_path._is_waiting",
        before=_UNTIL_THE_DIRECT_PATH_OPENS,
    ),
}
AWAITS = {
    "a record": Wait(
        "asyncio.run(awaited_while_the_loop_forks(made)).offset", "ProducerForked", "0"
    ),
    "a receipt": Wait(
        "len(asyncio.run(awaited_while_the_loop_forks(made)))", "ProducerForked", "1", send=_RECEIPT
    ),
}


LONE = Wait(
    "records_from_it_on_after_a_fork(made)",
    "ProducerForked",
    "1",
    send="lone_record()",
    before="""producer._kprod.support.open_topic("orders", 60_000)
direct_path, sender = producer._kprod.path.direct_path, producer._kprod.sender""",
)


def _check(wait: Wait, *, uses_signal: bool) -> None:
    script = _SCRIPT.format(uses_signal=uses_signal, **wait._asdict())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [wait.in_child, "0", wait.in_parent, "0"]


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_ends_in_a_child_that_a_signal_handler_forks(name: str) -> None:
    """The child's copy of the wait has nobody who could end it; the parent's continues."""
    if name == "a wait at the socket" and not epoll_selector.IS_AVAILABLE:
        pytest.skip("the direct path needs epoll and eventfd (Linux)")
    _check(WAITS[name], uses_signal=True)


@pytest.mark.parametrize("name", AWAITS)
def test_a_task_ends_its_wait_in_a_child_that_its_loop_forks(name: str) -> None:
    """The child continues with its copy of the loop; nothing comes from the sender any more."""
    _check(AWAITS[name], uses_signal=False)


@pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)
def test_a_lone_record_is_the_parents_in_a_fork_right_after_it() -> None:
    """Its caller has written it, and nobody waits for it yet: the child's copy has an error."""
    _check(LONE, uses_signal=False)
