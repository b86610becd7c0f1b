"""Names become addresses, off the caller's thread."""

import gc
import socket
import threading
import weakref

import pytest

from kprod.network import resolver as resolver_module
from kprod.network.resolver import THREADS_MAX, Resolution, ThreadResolver, look_up


class Lookups:
    """Replaces the system's lookup; each one waits until it is released."""

    def __init__(self) -> None:
        """Hold every lookup."""
        self.go_on = threading.Event()
        self.running = threading.Semaphore(0)
        self.threads: set[str] = set()

    def __call__(self, host: str, port: int) -> Resolution:
        """Wait, then answer with nothing."""
        self.threads.add(threading.current_thread().name + str(threading.get_ident()))
        self.running.release()
        assert self.go_on.wait(30)
        return Resolution(host, port, ())


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Lookups:
    """Lookups under control."""
    fake = Lookups()
    monkeypatch.setattr(resolver_module, "look_up", fake)
    return fake


def test_localhost_resolves() -> None:
    """The system knows its own name; every address has the port."""
    resolution = look_up("localhost", 9092)

    assert resolution.error is None
    assert {address.host for address in resolution.addresses} <= {"127.0.0.1", "::1"}
    assert all(address.port == 9092 for address in resolution.addresses)


def test_an_unknown_name_is_an_error_with_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the system's."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert look_up("nowhere.invalid", 1).error == (
        "cannot resolve 'nowhere.invalid': [Errno -2] Name or service not known"
    )


def test_a_name_that_cannot_be_encoded_is_an_error() -> None:
    """A label of 64 characters fails before any server is asked."""
    assert "cannot resolve" in str(look_up("a" * 64 + ".example", 1).error)


def test_a_request_does_not_block_and_its_result_wakes(lookups: Lookups) -> None:
    """The caller continues at once; later it is woken and takes the result."""
    woken = threading.Event()
    resolver = ThreadResolver(woken.set)

    resolver.request("slow.example", 9092)
    assert resolver.take() == []
    lookups.go_on.set()

    assert woken.wait(30)
    assert resolver.take() == [Resolution("slow.example", 9092, ())]
    assert resolver.take() == []


def test_slow_names_do_not_hold_up_the_others(lookups: Lookups) -> None:
    """Up to four lookups run at once; more wait, and every one is answered."""
    woken = threading.Semaphore(0)
    resolver = ThreadResolver(woken.release)

    for number in range(10):
        resolver.request(f"host-{number}", 1)
    for _ in range(THREADS_MAX):
        assert lookups.running.acquire(timeout=30)
    assert not lookups.running.acquire(blocking=False)
    lookups.go_on.set()
    for _ in range(10):
        assert woken.acquire(timeout=30)

    assert {resolution.host for resolution in resolver.take()} == {
        f"host-{number}" for number in range(10)
    }
    assert len(lookups.threads) <= THREADS_MAX


def test_a_name_is_looked_up_here_if_there_is_no_other_thread(
    lookups: Lookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter that is ending gives none; the next request tries for one again."""

    def deny(*_: object, **__: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    woken: list[int] = []
    resolver = ThreadResolver(lambda: woken.append(threading.get_ident()))
    lookups.go_on.set()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", deny)
        resolver.request("late.example", 1)
    assert [resolution.host for resolution in resolver.take()] == ["late.example"]
    assert woken == [threading.get_ident()]
    assert resolver._thread_count == 0


def test_a_signal_handler_may_close_a_resolver_that_is_asked(lookups: Lookups) -> None:
    """Its lock is re-entrant: a handler that interrupts its holder does not wait for it."""
    resolver = ThreadResolver(lambda: None)
    with resolver._lock:
        resolver.close()
    resolver.request("late.example", 1)
    assert not lookups.running.acquire(blocking=False)


def test_a_closed_resolver_forgets(lookups: Lookups) -> None:
    """Pending look-ups are dropped and nothing new begins."""
    resolver = ThreadResolver(lambda: None)
    resolver.close()

    resolver.request("late.example", 1)

    assert not lookups.running.acquire(blocking=False)
    assert resolver.take() == []


class Client:
    """Counts wakeups by a resolver."""

    def __init__(self) -> None:
        """Start asleep."""
        self.wakeups = 0

    def wakeup(self) -> None:
        """Count."""
        self.wakeups += 1


def test_a_look_up_under_way_keeps_nothing_of_a_closed_client(lookups: Lookups) -> None:
    """The system cannot be stopped from looking a name up; nobody is told what it finds."""
    client = Client()
    resolver = ThreadResolver(client.wakeup)
    resolver.request("slow.example", 1)
    assert lookups.running.acquire(timeout=30)
    threads = [thread for thread in threading.enumerate() if thread.name == "kprod-resolver"]
    resolver.close()
    alive = weakref.ref(client)
    del client
    gc.collect()

    assert alive() is None
    lookups.go_on.set()
    for thread in threads:
        thread.join(30)
    assert resolver.take() == []
