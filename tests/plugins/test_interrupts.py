"""The tests of Ctrl-C give their processes its default meaning themselves."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def ignored() -> Iterator[None]:
    """SIGINT is ignored, as in a background job of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_child() -> int:
    """Start a process that sends itself SIGINT, and return its exit code."""
    script = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    child = [sys.executable, "-c", script]
    return subprocess.run(child, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode


@pytest.mark.usefixtures("ignored")
def test_children_inherit_that_interrupts_are_ignored(request: pytest.FixtureRequest) -> None:
    """Without the fixture the child survives Ctrl-C, with it Ctrl-C ends it."""
    assert interrupt_child() == 0
    request.getfixturevalue("interruptible")
    assert interrupt_child() == -signal.SIGINT


def test_a_handler_ends_with_its_test(pytester: pytest.Pytester) -> None:
    """The next test does not see it."""
    pytester.makeconftest('pytest_plugins = ["tests.plugins.interrupts"]')
    pytester.makepyfile("""
        import signal

        def test_one():
            signal.signal(signal.SIGTERM, lambda *_: None)

        def test_two():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    """)
    pytester.runpytest("-p", "no:randomly").assert_outcomes(passed=2)
