"""Calls that may block run on a separate thread, and no thread waits for it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kprod.errors import AuthenticationFailed
from kprod.network.sasl.login_thread import InlineJobs, LoginThread


class Told:
    """Outcomes."""

    def __init__(self) -> None:
        """Start with none."""
        self.outcomes: list[tuple[Any, Any]] = []

    def __call__(self, found: Any, error: BaseException | None) -> None:
        """Take one."""
        self.outcomes.append((found, error))


@pytest.mark.parametrize("make", [LoginThread, InlineJobs])
def test_outcomes_are_told_on_the_client_s_thread(
    make: Callable[[Callable[[], None]], LoginThread | InlineJobs],
) -> None:
    """In the order of the jobs, whatever they raise."""
    woken, told = threading.Semaphore(0), Told()
    jobs = make(woken.release)
    jobs.run(lambda: 1, told)
    jobs.run(lambda: 1 // 0, told)
    jobs.run(lambda: 3, told)
    for _ in range(3):
        assert woken.acquire(timeout=30)
    assert told.outcomes == []
    while jobs.outcomes:
        jobs.outcomes.popleft()()
    values = [found for found, _ in told.outcomes]
    assert values == [1, None, 3]
    error = told.outcomes[1][1]
    assert isinstance(error, AuthenticationFailed)
    assert "the login failed: ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__ is None  # its frames may hold a token


def test_what_ends_a_thread_ends_a_job_only() -> None:
    """`SystemExit` of an application's provider too."""
    woken, told = threading.Semaphore(0), Told()
    jobs = LoginThread(woken.release)

    def leave() -> None:
        raise SystemExit

    jobs.run(leave, told)
    assert woken.acquire(timeout=30)
    jobs.outcomes.popleft()()
    assert isinstance(told.outcomes[0][1].__cause__, SystemExit)


class Wordless(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        """Fail, on whichever thread asks."""
        raise RuntimeError(threading.current_thread().name)


def test_an_error_is_put_into_words_on_the_login_thread() -> None:
    """The client's thread runs no code of the application's error."""
    woken, told = threading.Semaphore(0), Told()
    jobs = LoginThread(woken.release)

    def fail() -> None:
        raise Wordless

    jobs.run(fail, told)
    assert woken.acquire(timeout=30)
    jobs.outcomes.popleft()()
    assert str(told.outcomes[0][1]) == "the login failed: Wordless: its text raised RuntimeError"


def test_without_a_thread_jobs_fail_and_do_not_run_on_the_client_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may block; the next job tries to start a thread again."""
    woken, told, ran = threading.Semaphore(0), Told(), threading.Event()
    jobs = LoginThread(woken.release)

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        jobs.run(ran.set, told)
    assert woken.acquire(timeout=30)
    jobs.outcomes.popleft()()
    assert "no thread could be started for the login: RuntimeError" in str(told.outcomes[0][1])
    assert not ran.is_set()
    jobs.run(ran.set, told)
    assert woken.acquire(timeout=30)
    assert ran.is_set()


def test_closing_waits_for_no_job() -> None:
    """Its outcome is told to nobody."""
    entered, leave, told = threading.Event(), threading.Event(), Told()
    jobs = LoginThread(lambda: None)

    def hang() -> None:
        entered.set()
        leave.wait(30)

    jobs.run(hang, told)
    assert entered.wait(30)
    (thread,) = [it for it in threading.enumerate() if it.name == "kprod-login"]
    jobs.close()
    jobs.run(lambda: 5, told)
    leave.set()
    thread.join(30)
    assert not thread.is_alive()
    assert not jobs.outcomes
    assert told.outcomes == []
