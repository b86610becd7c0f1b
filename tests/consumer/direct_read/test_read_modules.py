"""The direct read opens only if the modules that it runs are compiled, and the list names them."""

import importlib
import subprocess
import sys

import pytest

from kprod.consumer.read_modules import READ_MODULES
from kprod.network import epoll_selector
from kprod.network.compiled_modules import interpreted_modules

needs_epoll = pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)
OUTSIDE = {"kprod.cluster.metadata_waiters", "kprod.consumer.mailbox"}
"""Modules that run while the lock is not held: they queue the waiter."""


def _interpreted(mode: str) -> list[str]:
    """Return the output of a process in which every `.py` is interpreted."""
    command = [sys.executable, "-m", "tests.consumer.direct_read.interpreted_reads", mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_module_of_the_list_is_compiled() -> None:
    """In the build that is tested, nothing keeps the path from opening."""
    assert interpreted_modules(READ_MODULES) == []


@needs_epoll
def test_interpreted_modules_close_the_path() -> None:
    """Records are read in the usual way."""
    assert _interpreted("closed") == []


@needs_epoll
def test_the_list_is_what_runs_where_interpreted_modules_are_admitted() -> None:
    """Interpreted, each module can be seen to run; compiled, none can."""
    assert set(_interpreted("open")) - OUTSIDE == set(READ_MODULES)


@pytest.mark.parametrize("name", READ_MODULES)
def test_a_module_says_so_at_its_head(name: str) -> None:
    """In the second line, so that whoever changes it knows the rule."""
    module = importlib.import_module(name)
    assert module.__doc__ is not None
    first, second, *_ = module.__doc__.strip().split("\n\n")
    assert first
    assert "COMPILED_MODULES" in second
