"""Each test of a loop runs under asyncio's own loop and under uvloop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

T = TypeVar("T")
LIMIT_S = 60.0

Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(scope="session", autouse=True)  # ruff: ignore[pytest-fixture-autouse] - once
def _open_what_stays() -> None:
    """The first loop of libuv opens a pipe for signals that its process keeps."""
    loop = uvloop.new_event_loop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run[Any]:
    """Run a coroutine in a new loop, to its end or the limit."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(asyncio.wait_for(coroutine, LIMIT_S))

    return run_in_loop
