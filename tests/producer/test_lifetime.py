"""How a producer ends when nobody closes it: forked, forgotten at exit, or its thread dead."""

import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import pytest

import kprod
from kprod.broker import EmbeddedCluster
from kprod.config import NetworkSettings
from kprod.errors import KprodError
from kprod.lifetime import open_clients as lifetime
from kprod.network.connection_context import NetworkIO, system_io
from kprod.producer.wiring import Environment
from kprod.protocol.api import ApiKey

TIMEOUT_S = 60


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker, one topic with one partition."""
    with EmbeddedCluster(brokers=1, topics={"orders": 1}) as running:
        yield running


def _run(cluster: EmbeddedCluster, body: str) -> subprocess.CompletedProcess[str]:
    script = f"import kprod, os\nservers = {cluster.bootstrap_servers!r}\n{textwrap.dedent(body)}"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def _values(cluster: EmbeddedCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("orders").get(0, [])]


def test_a_forked_child_raises_and_its_parent_delivers(cluster: EmbeddedCluster) -> None:
    """The child's send raises at once, its exit sends nothing; the parent's records arrive once."""
    done = _run(
        cluster,
        """
        producer = kprod.Producer(bootstrap_servers=servers, linger_ms=500)
        producer.send("orders", b"warm").result(20)
        for number in range(100):
            producer.send("orders", b"%d" % number)
        child = os.fork()
        if not child:
            try:
                producer.send("orders", b"child")
            except kprod.errors.ProducerForked:
                raise SystemExit(7)
            raise SystemExit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), producer.close(20))
        """,
    )
    assert done.stdout.split() == ["7", "0"], done.stderr
    assert _values(cluster) == [b"warm", *(b"%d" % number for number in range(100))]


def test_an_unclosed_producer_is_flushed_at_exit(cluster: EmbeddedCluster) -> None:
    """A script that just ends loses nothing."""
    done = _run(
        cluster,
        """
        producer = kprod.Producer(bootstrap_servers=servers, linger_ms=10_000)
        for number in range(100):
            producer.send("orders", b"%d" % number)
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert _values(cluster) == [b"%d" % number for number in range(100)]


def test_records_lost_at_exit_are_counted(cluster: EmbeddedCluster) -> None:
    """The broker answers nothing: a warning says how many records, and the process ends."""
    cluster.faults.drop(ApiKey.PRODUCE, times=100)
    done = _run(
        cluster,
        """
        import kprod.lifetime.open_clients as lifetime
        lifetime.EXIT_FLUSH_S = 0.2
        producer = kprod.Producer(bootstrap_servers=servers)
        producer.send("orders", b"lost")
        producer.send("orders", b"lost too")
        """,
    )
    assert done.returncode == 0
    assert "2 records were not delivered within 0.2 s at exit" in done.stderr


class _DyingSelector:
    """A selector that works until it is told to die."""

    def __init__(self, selector: Any) -> None:
        self._selector = selector
        self.is_dying = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout_ms: int) -> Any:
        if self.is_dying:
            raise RuntimeError("the selector died")
        return self._selector.select(min(timeout_ms, 10))


def test_a_dead_sender_fails_everything_and_says_why(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Futures fail with the cause, `send` raises it, `close` returns."""
    selectors: list[_DyingSelector] = []

    def io(settings: NetworkSettings) -> NetworkIO:
        opened = system_io(settings)
        selectors.append(_DyingSelector(opened.selector))
        return opened._replace(selector=selectors[0])

    producer = kprod.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=5_000,
        environment=Environment(io=io),
    )
    future = producer.send("orders", b"waiting")
    with caplog.at_level(logging.CRITICAL):
        selectors[0].is_dying = True
        error = future.exception(20)
    assert isinstance(error, KprodError)
    assert "RuntimeError: the selector died" in str(error)
    with pytest.raises(KprodError, match="the sender thread died"):
        producer.send("orders", b"more")
    assert producer.close(5) == 0


class _Ended:
    """A producer with nothing left to close."""

    client_id = "ended"

    def close_soon(self) -> Callable[[], int]:
        return lambda: 0

    def close_at_exit(self, timeout: float) -> int:
        return int(timeout is None) * 0

    def reject_in_child(self) -> None:
        """Nothing to reject."""


def _come_and_go(is_over: threading.Event) -> None:
    while not is_over.is_set():
        passing = _Ended()
        lifetime.watch(passing)
        lifetime.unwatch(passing)


def test_producers_may_come_and_go_while_all_are_asked() -> None:
    """An interpreter that ends, or forks, must not stumble over a thread that just closes one."""
    stays = [_Ended() for _ in range(50)]
    list(map(lifetime.watch, stays))
    is_over = threading.Event()
    thread = threading.Thread(target=_come_and_go, args=[is_over])
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        assert all(len(lifetime.still_open()) >= len(stays) for _ in range(2000))
    finally:
        sys.setswitchinterval(interval_s)
        is_over.set()
        thread.join()
        list(map(lifetime.unwatch, stays))


def test_ctrl_c_again_and_again_at_exit_keeps_nothing_from_being_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The user presses it twice; each producer's loss is logged all the same."""

    class Busy(_Ended):
        """Ctrl-C comes whenever it is closed."""

        client_id = "busy"

        def close_soon(self) -> Callable[[], int]:
            return lambda: 7

        def close_at_exit(self, timeout: float) -> int:
            raise KeyboardInterrupt(timeout)

    monkeypatch.setattr(lifetime, "_open", WeakValueDictionary())
    producers = [Busy(), Busy()]
    list(map(lifetime.watch, producers))
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        lifetime._close_at_exit()
    said = [tuple(record.args or ())[:2] for record in caplog.records]
    assert said == [("busy", 7)] * 2
