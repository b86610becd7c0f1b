"""The leak check: it sees objects that stay, waits for ending ones, and fails the test."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.plugins import leaks

ROOT = Path(__file__).parent.parent.parent


def _before() -> tuple[set[threading.Thread], set[tuple[int, str]]]:
    return set(threading.enumerate()), leaks.open_descriptors()


def test_nothing_new_is_no_leak() -> None:
    """Sockets closed and threads joined before the look leave nothing."""
    before = _before()
    with socket.socket():
        pass
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert leaks.left_behind(*before) == []


def test_a_thread_that_is_just_ending_is_waited_for() -> None:
    """A thread that was told to stop has a moment to do so."""
    before = _before()
    stop = threading.Event()
    threading.Thread(target=stop.wait, args=(30,), daemon=True).start()
    stop.set()
    assert leaks.left_behind(*before) == []


def test_a_thread_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit a living thread is reported by its name."""
    monkeypatch.setattr(leaks, "JOIN_TIMEOUT_S", 0.01)
    before = _before()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, args=(30,), name="left over", daemon=True)
    thread.start()
    try:
        assert leaks.left_behind(*before) == ["thread 'left over'"]
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(leaks.DESCRIPTORS is None, reason="the system does not list descriptors")
def test_an_open_socket_is_named() -> None:
    """A descriptor is reported with its number."""
    before = _before()
    with socket.socket() as left_open:
        (left,) = leaks.left_behind(*before)
        assert left.startswith(f"descriptor {left_open.fileno()} (")


@pytest.mark.skipif(leaks.DESCRIPTORS is None, reason="the system does not list descriptors")
@pytest.mark.slow
def test_the_test_that_leaks_fails_and_the_marked_one_does_not(tmp_path: Path) -> None:
    """The fixture fails the leaking test in its teardown; the marker lets another pass."""
    (tmp_path / "test_leaking.py").write_text(
        "import pytest\n"
        "kept = []\n"
        "def test_leaks(): kept.append(open('/dev/zero'))\n"
        "@pytest.mark.may_leak('to see the marker work')\n"
        "def test_may(): kept.append(open('/dev/zero'))\n"
        "def test_clean(): pass\n",
        "utf-8",
    )
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n", "utf-8")
    arguments = ("-p", "tests.plugins.leaks", "-p", "no:randomly", "-q", "-c", str(settings))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "3 passed, 1 error" in run.stdout
    assert "left behind: descriptor" in run.stdout
