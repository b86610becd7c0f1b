"""A subclass of a producer may use any name for its own purposes but `_kprod`."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kprod
from kprod.broker import EmbeddedCluster

SENDS = 5
SETTLE_S = 10.0  # a lost wake-up would cost the sender's longest sleep, a minute
API = frozenset(
    {"send", "send_many", "send_arrow", "flush", "purge", "close", "metrics", "client_id"}
)
ASYNC_API = API | {"start", "send_and_wait"}

# Attributes that producers once had beside their documented ones.
FORMER = frozenset(
    {
        *(
            "await_partition",
            "begin_close",
            "breathe",
            "choose_partition",
            "engine",
            "hurry",
        ),
        *("inbox", "intercept", "lane", "make_batch", "note_failed", "open_topic", "parts"),
        *(
            "refusal",
            "refuse_in_child",
            "roll_sticky",
            "run_once",
            "sender_sleeps",
            "serialize",
        ),
        *("too_large_text", "topics", "wait_and_send", "wait_for_memory", "wake", "wake_sender"),
        *("_accumulator", "_check_initialised", "_client", "_config", "_delivery", "_ending"),
        *("_expire", "_find_partition", "_flush", "_given", "_has_begun", "_transaction_manager"),
        *("_in_bulk", "_interceptors", "_is_closed", "_line", "_lines", "_measured", "_metadata"),
        *(
            "_needed",
            "_on_shortage",
            "_open_direct_path",
            "_opener",
            "_parts",
            "_patience_ms",
            "_pool",
        ),
        *("_recorder", "_reject", "_sender", "_serializers", "_shares_engine", "_start_flush"),
        *("_start_lock", "_state_log", "_thread", "_timer", "_wake", "_wire_up", "_world"),
    }
)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of brokers with one topic."""
    with EmbeddedCluster(brokers=1, topics={"orders": 2}) as cluster:
        yield cluster.bootstrap_servers


def _own(subject: object) -> bool:
    return type(subject).__module__.startswith("kprod")


def _walked(start: object) -> set[str]:
    """The name of every attribute of every object of kprod that can be reached."""
    names: set[str] = set()
    seen: dict[int, object] = {}
    left = [start]
    while left:
        subject = left.pop()
        if id(subject) in seen:
            continue
        seen[id(subject)] = subject
        found = [name for name in dir(subject) if not name.startswith("__")]
        names.update(found)
        for name in found:
            try:
                value = getattr(subject, name)
            except Exception:  # noqa: BLE001, S112 - a property of something not begun
                continue
            if _own(value):
                left.append(value)
    return names


def _names(servers: str) -> set[str]:
    """All that the engines call anything, and all that producers were asked for before."""
    with kprod.Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        producer.send("orders", b"x").result(SETTLE_S)
        names = _walked(producer._kprod)
        shared = kprod.AsyncProducer(engine=producer)
        names |= _walked(shared._kprod)
    assert {"_turn", "_inbox", "_answer", "queues"} & names  # it went deep
    return (names | FORMER) - {"_kprod"}


def _subclass(base: type, api: frozenset[str], names: set[str], calls: dict[str, list[str]]) -> Any:
    """A class with a method of its own for each name; public methods call the base class's."""

    def own(name: str) -> Callable[..., str]:
        def call(*_: Any, **__: Any) -> str:
            calls["own"].append(name)
            return "good morning"

        return call

    def passing(name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            calls["api"].append(name)
            return getattr(base, name)(*args, **more)

        return call

    space = {name: own(name) for name in names - api}
    space |= {name: passing(name) for name in api - {"client_id"}}
    return type("Mine", (base,), space)


def _work(producer: Any) -> None:
    """An application's use of a producer."""
    for number in range(SENDS):
        assert producer.send("orders", b"%d" % number).result(SETTLE_S).topic == "orders"
    assert producer.send("orders", b"k", key=b"k", partition=1).result(SETTLE_S).partition == 1
    receipt = producer.send_many("orders", [b"x"] * 10)
    assert producer.flush(SETTLE_S) == 0
    assert receipt.done()
    assert "producer-metrics" in producer.metrics()
    assert producer.purge() == 0
    assert producer.close(SETTLE_S) == 0


@pytest.mark.parametrize("settings", [{}, {"linger_ms": 0}])
def test_methods_of_a_subclass_are_its_own(servers: str, settings: dict[str, Any]) -> None:
    """Each name of the engine's as a method that returns nonsense; none is ever called."""
    calls: dict[str, list[str]] = {"own": [], "api": []}
    kind = _subclass(kprod.Producer, API, _names(servers), calls)
    _work(kind(bootstrap_servers=servers, **settings))
    assert calls["own"] == []
    assert set(calls["api"]) == API - {"client_id", "send_arrow"}


@pytest.mark.parametrize("settings", [{}, {"linger_ms": 0}])
def test_attributes_of_a_subclass_are_its_own(servers: str, settings: dict[str, Any]) -> None:
    """Set before and after `super().__init__`, by assignment."""
    names = (_names(servers) - API) | {"client_id"}

    class Mine(kprod.Producer):
        def __init__(self, **given: Any) -> None:
            for name in names:
                setattr(self, name, "eu-west")
            super().__init__(**given)
            for name in names:
                assert getattr(self, name) == "eu-west"
                setattr(self, name, "eu-east")

    producer = Mine(bootstrap_servers=servers, **settings)
    _work(producer)
    assert {getattr(producer, name) for name in names} == {"eu-east"}


def test_class_attributes_of_a_subclass_are_its_own(servers: str) -> None:
    """A property and a constant, for each name in turn one of the two."""
    names = sorted((_names(servers) - API) | {"client_id"})
    space: dict[str, Any] = {
        name: property(lambda _: "eu-west") if number % 2 else 5
        for number, name in enumerate(names)
    }
    kind: Any = type("Mine", (kprod.Producer,), space)
    _work(kind(bootstrap_servers=servers))


@pytest.mark.parametrize("settings", [{}, {"linger_ms": 0}])
def test_an_async_subclass_has_any_name(servers: str, settings: dict[str, Any]) -> None:
    """As the other producer's."""
    calls: dict[str, list[str]] = {"own": [], "api": []}
    kind = _subclass(kprod.AsyncProducer, ASYNC_API, _names(servers), calls)

    async def work() -> None:
        async with kind(bootstrap_servers=servers, **settings) as producer:
            for number in range(SENDS):
                accepted = await producer.send("orders", b"%d" % number)
                assert (await asyncio.wait_for(accepted, SETTLE_S)).topic == "orders"
            assert (await producer.send_and_wait("orders", b"x", partition=1)).partition == 1
            receipt = await producer.send_many("orders", [b"x"] * 10)
            assert await producer.flush(SETTLE_S) == 0
            assert receipt.done()
            assert "producer-metrics" in producer.metrics()
            assert await producer.purge() == 0
            assert await producer.close(SETTLE_S) == 0

    asyncio.run(work())
    assert calls["own"] == []
    assert set(calls["api"]) == ASYNC_API - {"client_id", "send_arrow"}


def test_async_attributes_of_a_subclass_are_its_own(servers: str) -> None:
    """Set before and after `super().__init__`, by assignment."""
    names = _names(servers) - ASYNC_API

    class Mine(kprod.AsyncProducer):
        def __init__(self, **given: Any) -> None:
            for name in names:
                setattr(self, name, "eu-west")
            super().__init__(**given)
            for name in names:
                setattr(self, name, "eu-east")

    async def work() -> None:
        async with Mine(bootstrap_servers=servers) as producer:
            for _ in range(SENDS):
                await asyncio.wait_for(producer.send_and_wait("orders", b"x"), SETTLE_S)
            assert await producer.flush(SETTLE_S) == 0

    asyncio.run(work())


def test_a_close_of_ones_own_runs_at_the_end_of_the_interpreter(servers: str) -> None:
    """As it did when the producer was its own engine."""
    script = f"""
import kprod
class Audited(kprod.Producer):
    def close(self, timeout=None):
        left = super().close(timeout)
        print("closed by its own close, left", left)
        return left
made = Audited(bootstrap_servers={servers!r})
made.send("orders", b"a")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "closed by its own close, left 0\n"), done.stderr


def test_a_class_with_a_kprod_of_its_own_is_rejected(servers: str) -> None:
    """The one name that kprod keeps: nothing is begun that could not be closed."""

    class Hidden(kprod.Producer):
        _kprod = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="Hidden has an attribute _kprod of its own"):
        Hidden(bootstrap_servers=servers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_reads_the_client_id_though_another_thread_reads_it(
    servers: str,
) -> None:
    """No lock stands around the first look: a child would inherit it held, for good."""
    script = f"""
import os, threading, kprod
made = [kprod.Producer(bootstrap_servers={servers!r}) for _ in range(2)]
is_over = False
def read():
    while not is_over:
        made[0].client_id
        made[0].__dict__.pop("client_id", None)
reader = threading.Thread(target=read)
reader.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        made[1].__dict__.pop("client_id", None)
        os._exit(0 if made[1].client_id else 1)
    assert os.waitpid(child, 0)[1] == 0
is_over = True
reader.join()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_shared_producer_does_what_its_class_does(servers: str) -> None:
    """Bulk calls, purges and metrics of an asynchronous producer go through an audited one."""
    called: list[str] = []

    class Audited(kprod.Producer):
        def send_many(self, *args: Any, **more: Any) -> Any:
            called.append("send_many")
            return super().send_many(*args, **more)

        def purge(self) -> int:
            called.append("purge")
            return super().purge()

    async def use(engine: kprod.Producer) -> None:
        async with kprod.AsyncProducer(engine=engine) as made:
            await (await made.send_many("orders", [b"a", b"b"]))
            await made.purge()

    with Audited(bootstrap_servers=servers) as engine:
        asyncio.run(use(engine))
    assert called == ["send_many", "purge"]
    with pytest.raises(TypeError, match=r"engine must be a kprod\.Producer, got int"):
        kprod.AsyncProducer(engine=5)  # type: ignore[arg-type]
