"""The direct path opens only if the modules that it runs are compiled, and the list names them."""

import importlib
import subprocess
import sys

import pytest

from kprod.network import epoll_selector
from kprod.network.compiled_modules import COMPILED_TLS_MODULES, interpreted_modules
from kprod.producer.direct_path.send_modules import SEND_MODULES

ALL_MODULES = SEND_MODULES + COMPILED_TLS_MODULES

needs_epoll = pytest.mark.skipif(
    not epoll_selector.IS_AVAILABLE, reason="the direct path needs epoll and eventfd (Linux)"
)


def _interpreted(mode: str) -> list[str]:
    """Return the output of a process in which every `.py` is interpreted."""
    command = [sys.executable, "-m", "tests.producer.direct_path.interpreted", mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_module_of_the_list_is_compiled() -> None:
    """In the build that is tested, nothing keeps the path from opening."""
    assert interpreted_modules(ALL_MODULES) == []


def test_an_interpreted_module_is_found() -> None:
    """Named as it was asked for, and compiled ones are not."""
    names = ("kprod.network.channel", "kprod.network.throttle", "kprod._core.clock")
    assert interpreted_modules(names) == ["kprod.network.throttle"]


@needs_epoll
def test_interpreted_modules_close_the_path() -> None:
    """Records take the usual way, and are delivered."""
    assert _interpreted("closed") == []


@needs_epoll
def test_the_list_is_what_runs_where_interpreted_modules_are_admitted() -> None:
    """Interpreted, each module can be seen to run; compiled, none can."""
    assert _interpreted("open") == sorted(ALL_MODULES)


@pytest.mark.parametrize("name", ALL_MODULES)
def test_a_module_says_so_at_its_head(name: str) -> None:
    """In the second line, so that whoever changes it knows the rule."""
    module = importlib.import_module(name)
    assert module.__doc__ is not None
    first, second, *_ = module.__doc__.strip().split("\n\n")
    assert first
    assert "COMPILED_MODULES" in second
