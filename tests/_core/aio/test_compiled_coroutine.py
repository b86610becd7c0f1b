"""A compiled coroutine keeps the protocol of a coroutine of Python."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from kprod import AsyncProducer, Producer
from tests.producer.bench import TOPIC, Bench

_opened: list[Producer] = []


@pytest.fixture(autouse=True)  # ruff: ignore[pytest-fixture-autouse] - for every path
def _close() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close(0)


def _path() -> AsyncProducer:
    _opened.append(Bench((0, 0, 0), linger_ms=0).producer)
    return AsyncProducer(engine=_opened[-1])


def _full_path() -> AsyncProducer:
    bench = Bench((0, 0, 0), linger_ms=60_000, buffer_memory=32_768, max_block_ms=60_000)
    bench.producer.send(TOPIC, b"v" * 28_000)
    _opened.append(bench.producer)
    return AsyncProducer(engine=bench.producer)


def test_it_counts_as_a_coroutine() -> None:
    """For asyncio, and for the abstract class."""
    send = _path().send(TOPIC, b"v")
    assert asyncio.iscoroutine(send)
    assert isinstance(send, Coroutine)
    awaited: object = send.__await__()
    assert awaited is send
    send.close()


def test_a_task_of_it_can_be_printed() -> None:
    """Though it has neither frame nor name."""

    async def show() -> str:
        task = asyncio.create_task(_path().send(TOPIC, b"v"))
        text = repr(task)
        await task
        return text

    assert "Sending" in asyncio.run(show(), debug=True)


def test_its_result_ends_it() -> None:
    """By `send`, by `next`, and only once."""
    path = _path()
    for step in (lambda it: it.send(None), next):
        send: Any = path.send(TOPIC, b"v")
        with pytest.raises(StopIteration) as end:
            step(send)
        assert not end.value.value.done()
        for again in (lambda it: it.send(None), next):
            with pytest.raises(RuntimeError, match="already awaited"):
                again(send)


def test_an_error_ends_it() -> None:
    """The error of its step, and none other afterwards."""
    send = _path().send(TOPIC, 5)
    with pytest.raises(TypeError, match="value must be bytes-like"):
        send.send(None)
    with pytest.raises(RuntimeError, match="already awaited"):
        send.send(None)


@pytest.mark.parametrize(
    "given",
    [
        (KeyError("k"),),
        (KeyError,),
        (KeyError, "k"),
        (KeyError, ("k",)),
        (KeyError, KeyError("k"), None),
    ],
)
def test_a_thrown_error_comes_out(given: tuple[Any, ...]) -> None:
    """In every form that `throw` takes, before the first step and while it waits."""
    send: Any = _path().send(TOPIC, b"v")
    with pytest.raises(KeyError):
        send.throw(*given)

    async def throw() -> None:  # noqa: RUF029 - needs a loop that runs
        waiting: Any = _full_path().send(TOPIC, b"v" * 28_000)
        assert asyncio.isfuture(waiting.send(None))
        with pytest.raises(KeyError):
            waiting.throw(*given)
        with pytest.raises(RuntimeError, match="already awaited"):
            waiting.send(None)

    asyncio.run(throw())


def test_closed_it_leaves_its_place() -> None:
    """Before the first step, while it waits, and twice."""

    async def close() -> None:  # noqa: RUF029 - needs a loop that runs
        path = _full_path()
        engine = path._kprod.engine
        assert engine is not None
        unbegun = path.send(TOPIC, b"v" * 28_000)
        unbegun.close()
        waiting = path.send(TOPIC, b"v" * 28_000)
        waiting.send(None)
        assert engine.pool.waiter_count == 1
        waiting.close()
        waiting.close()
        assert engine.pool.waiter_count == 0

    asyncio.run(close())


def test_never_awaited_it_warns() -> None:
    """As a coroutine of Python does, and nothing is sent."""
    path = _path()
    sending = path.send(TOPIC, b"v")
    with pytest.warns(RuntimeWarning, match="send to 'orders' was never awaited"):
        del sending
