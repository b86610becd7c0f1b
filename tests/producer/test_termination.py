"""SIGTERM with `close_on_sigterm`, by processes that die so."""

import signal
import subprocess
import sys
import threading

import pytest

import kprod
from kprod.broker import EmbeddedCluster

LIMIT_S = 60
HEAD = """\
import asyncio, os, signal, sys, time, threading, kprod
from kprod import Producer, close_on_sigterm
servers = sys.argv[1]
def fill(producer, count=1_000):
    for number in range(count):
        producer.send("orders", b"order")
"""
ENDS = {
    "while it sleeps": """
close_on_sigterm()
producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
fill(producer)
print("ready", flush=True)
time.sleep(60)
""",
    "while it waits for a result": """
close_on_sigterm()
producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
fill(producer, 999)
last = producer.send("orders", b"order")
print("ready", flush=True)
last.result()
""",
    "in a with block": """
close_on_sigterm()
with Producer(bootstrap_servers=servers, linger_ms=60_000) as producer:
    fill(producer)
    print("ready", flush=True)
    threading.Event().wait(60)
""",
    "with other threads at work": """
close_on_sigterm()
producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
done = threading.Event()
def work():
    fill(producer)
    done.set()
    time.sleep(60)
threading.Thread(target=work, daemon=True).start()
done.wait()
print("ready", flush=True)
time.sleep(60)
""",
    "in an event loop": """
close_on_sigterm()
async def main():
    async with kprod.AsyncProducer(bootstrap_servers=servers, linger_ms=60_000) as producer:
        for number in range(1_000):
            await producer.send("orders", b"order")
        print("ready", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
""",
}


def _killed(program: str, servers: str) -> subprocess.CompletedProcess[str]:
    """Run a program until it is ready, then send SIGTERM; returns its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + program, servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    said, complaints = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess((), process.returncode, said, complaints)


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_lingering_records_are_sent(end: str) -> None:
    """All thousand are in the log, and the exit code is a shell's for SIGTERM."""
    with EmbeddedCluster(1, {"orders": 3}) as cluster:
        done = _killed(ENDS[end], cluster.bootstrap_servers)
        assert (done.returncode, done.stderr) == (143, "")
        assert sum(map(len, cluster.records("orders").values())) == 1_000


@pytest.mark.slow
def test_the_wait_is_bounded_and_told() -> None:
    """No broker: the process ends all the same, and says how much is lost."""
    program = """
close_on_sigterm(timeout=0.2)
with Producer(bootstrap_servers=servers) as warm:
    warm.send("orders", b"order").result()
    kept = Producer(bootstrap_servers=servers, linger_ms=60_000)
    kept.send("orders", b"order")
    kept.flush()
fill(kept, 7)
print("ready", flush=True)
sys.stdin.readline()
time.sleep(60)
"""
    with EmbeddedCluster(1, {"orders": 1}) as cluster:
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + program, cluster.bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert "7 records were not delivered within 0.2 s at exit" in complaints


def test_a_handler_of_the_application_is_not_replaced() -> None:
    """Two that each end the process would have to know of each other."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with pytest.raises(RuntimeError, match=r"has a handler already.*sys\.exit\(143\)"):
            kprod.close_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_python_does_not_know_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """`getsignal` returns None for one that was installed in C before the interpreter started."""
    monkeypatch.setattr(signal, "getsignal", lambda _number: None)
    with pytest.raises(RuntimeError, match="already: one that Python did not install"):
        kprod.close_on_sigterm()


def test_it_may_be_called_twice() -> None:
    """By an application and a library of its own; the exit is as after one call."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        kprod.close_on_sigterm()
        handler = signal.getsignal(signal.SIGTERM)
        kprod.close_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) is handler
        with pytest.raises(SystemExit) as raised:
            signal.raise_signal(signal.SIGTERM)
        assert raised.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)


def test_only_the_main_thread_can_call_it() -> None:
    """As Python says of every handler."""
    errors: list[BaseException] = []
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def call() -> None:
        try:
            kprod.close_on_sigterm()
        except RuntimeError as error:
            errors.append(error)

    try:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert "main thread" in str(errors[0])
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout: float) -> None:
    """Nothing has happened."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="0 or more seconds"):
        kprod.close_on_sigterm(timeout=timeout)
    assert signal.getsignal(signal.SIGTERM) is before
