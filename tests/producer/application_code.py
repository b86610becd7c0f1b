"""Every place where application code runs inside kprod, and everything that it may do there.

    python -m tests.producer.application_code PLACE ACTION SERVERS

plays one scene in a process of its own, as forks and last references need it.

A scene has one producer. It arms the place, sends one record so that the place's code runs, and
records the result. Nothing leaves linger but by `flush`, so that a callback registered after a
send is still called on the sender's thread.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import kprod
from kprod.compression import Buffer, compressor
from kprod.errors import ClosedError, KprodError, ProducerForked
from kprod.interfaces import OutgoingRecord
from kprod.metrics.prometheus import ProducerCollector
from kprod.model import Codec
from kprod.producer.wiring import Environment
from tests.thread_tracing import trace_new_threads

WAIT_S = 60.0  # ends a broken test, never its rhythm
TOPIC, BESIDE = "orders", "beside"
MARKED, INNER, LATER = b"marked", b"inner", b"later"
CHILD_OK, CHILD_WRONG = 7, 1

Act = Callable[[], object]


class Planted(BaseException):
    """Not even an `Exception`."""


class Scene:
    """One producer, and the code that runs in one place of it.

    Attributes:
        outcome: Asks the marked record's future or receipt; None if `send` raised.
        closed_error: The error that `send` raised.
        result: The action's result or exception.
    """

    def __init__(self, place: "Place", action: "Action", servers: str) -> None:
        """Make the producer; it has delivered one record."""
        self.place = place
        self.action = action
        self.is_armed = False
        self.entered, self.finished = threading.Event(), threading.Event()
        self.released, self.alone = threading.Event(), threading.Event()
        self.outcome: Callable[[float], BaseException | None] | None = None
        self.closed_error: BaseException | None = None
        self.result: object = None
        self.inner: kprod.RecordFuture | None = None
        self.child: int | None = None
        self.is_child = False
        self.cleanups: list[Act] = []
        self.producer = kprod.Producer(
            bootstrap_servers=servers, linger_ms=60_000, **place.settings(self)
        )
        self.producer.send(TOPIC, b"before")
        assert self.producer.flush(WAIT_S) == 0
        self.engine = weakref.ref(self.producer._kprod)  # which the sender keeps
        self.sender = self.producer._kprod.thread._ident
        assert self.sender is not None

    def act(self) -> None:
        """Do what the action is, once, when the scene is armed."""
        if not self.is_armed:
            return
        self.is_armed = False
        self.entered.set()
        try:
            self.result = self.action(self)
        except BaseException as error:
            self.result = error
            if self.action is ACTIONS["raises"] or self.action is ACTIONS["raises an Exception"]:
                raise
        finally:
            self.finished.set()

    def act_on_sender(self) -> None:
        """As `act`, on the sender's thread alone."""
        if self.is_armed and threading.get_ident() == self.sender:
            self.act()

    def play(self) -> None:
        """Send the marked record, with the place armed, and let it leave."""
        self.is_armed = True
        try:
            self.outcome = self.place.trigger(self)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.closed_error = error
        engine = self.engine()
        if engine is not None:
            with contextlib.suppress(KprodError):  # the action may have closed it
                engine.flush(0)
            if self.place.name == "interceptor's close":
                engine.flush(WAIT_S)
                engine.close(0.05)
        del engine
        self.alone.set()

    def end(self) -> None:
        """Undo what the place has changed outside of the producer."""
        for cleanup in reversed(self.cleanups):
            cleanup()


# Actions of the code.

Action = Callable[[Scene], object]


def _raise(_: Scene) -> None:
    raise Planted


def _raise_exception(_: Scene) -> None:
    raise ValueError("planted")


def _block(scene: Scene) -> bool:
    return scene.released.wait(WAIT_S)


def _send(scene: Scene) -> kprod.RecordFuture:
    scene.inner = scene.producer.send(TOPIC, INNER)
    return scene.inner


def _flush(scene: Scene) -> int:
    return scene.producer.flush(WAIT_S)


def _close(scene: Scene) -> int:
    return scene.producer.close(WAIT_S)


def _fork(scene: Scene) -> None:
    pid = os.fork()
    if pid:
        scene.child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return
    signal.alarm(int(WAIT_S))  # a child that hangs is a failure
    try:
        scene.producer.send(TOPIC, b"from the child")
    except ProducerForked:
        scene.is_child = True
    finally:
        # On the sender's thread nothing is left to do: its process ends when the code returns.
        if not scene.is_child:
            os._exit(CHILD_WRONG)
        if scene.place.is_sender:
            os._exit(CHILD_OK)


def _drop(scene: Scene) -> None:
    if scene.place.is_sender:
        scene.alone.wait(WAIT_S)  # else the thread that plays the scene still has one
    scene.producer = None  # type: ignore[assignment]  # the last reference but the thread's
    gc.collect()


ACTIONS: dict[str, Action] = {
    "raises": _raise,
    "raises an Exception": _raise_exception,
    "blocks": _block,
    "sends": _send,
    "flushes": _flush,
    "closes": _close,
    "forks": _fork,
    "drops the last reference": _drop,
}


# Places that call the code.


class Place(NamedTuple):
    """A place where application code runs.

    Attributes:
        is_sender: Whether it runs on the sender's thread.
        trigger: Sends the marked record; returns how to ask for its outcome.
        settings: Settings of the producer.
    """

    name: str
    is_sender: bool
    trigger: Callable[[Scene], Callable[[float], BaseException | None]]
    settings: Callable[[Scene], dict[str, Any]] = lambda _: {}


def _send_marked(scene: Scene, **arguments: Any) -> Callable[[float], BaseException | None]:
    return scene.producer.send(TOPIC, MARKED, **arguments).exception


def _on_delivery(scene: Scene) -> Callable[[float], BaseException | None]:
    return _send_marked(scene, on_delivery=lambda *_: scene.act())


def _done_callback(scene: Scene) -> Callable[[float], BaseException | None]:
    future = scene.producer.send(TOPIC, MARKED)
    future.add_done_callback(lambda _: scene.act())
    return future.exception


def _receipt_callback(scene: Scene) -> Callable[[float], BaseException | None]:
    receipt = scene.producer.send_many(TOPIC, [MARKED])
    receipt.add_done_callback(lambda _: scene.act())
    return receipt.exception


class _Interceptor:
    """Runs the scene's code in one of its methods."""

    def __init__(self, scene: Scene, method: str) -> None:
        self.scene = scene
        self.method = method

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """In the caller's thread."""
        if self.method == "on_send":
            self.scene.act()
        return record

    def on_acknowledgement(self, *_: object) -> None:
        """In the sender's."""
        if self.method == "on_acknowledgement":
            self.scene.act()

    def close(self) -> None:
        """In the sender's, at the end."""
        if self.method == "close":
            self.scene.act()


def _interceptor(method: str) -> Callable[[Scene], dict[str, Any]]:
    return lambda scene: {"interceptors": [_Interceptor(scene, method)]}


class _Lines(logging.Handler):
    """Runs the scene's code at a line of the sender's thread."""

    def __init__(self, scene: Scene, *, as_filter: bool) -> None:
        super().__init__()
        self.scene = scene
        self.as_filter = as_filter

    def filter(self, record: logging.LogRecord) -> bool:
        """Run it here, or let the line through."""
        if self.as_filter:
            self.scene.act_on_sender()
        return bool(super().filter(record))

    def emit(self, _: logging.LogRecord) -> None:
        """Run it."""
        self.scene.act_on_sender()


def _line_of_the_log(
    *, as_filter: bool
) -> Callable[[Scene], Callable[[float], BaseException | None]]:
    def trigger(scene: Scene) -> Callable[[float], BaseException | None]:
        logger = logging.getLogger("kprod")
        handler = _Lines(scene, as_filter=as_filter)
        raises, logging.raiseExceptions = logging.raiseExceptions, False
        logger.addHandler(handler)
        scene.cleanups += [
            lambda: logger.removeHandler(handler),
            lambda: setattr(logging, "raiseExceptions", raises),
        ]

        def fail(*_: object) -> None:
            raise ValueError("a line")

        return _send_marked(scene, on_delivery=fail)

    return trigger


def _quiet_hook(scene: Scene) -> None:
    usual, sys.unraisablehook = sys.unraisablehook, lambda _: None
    scene.cleanups.append(lambda: setattr(sys, "unraisablehook", usual))


class _Finalized:
    """A callback that runs the scene's code when it is freed."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __call__(self, *_: object) -> None:
        """Be called as any other."""

    def __del__(self) -> None:
        self.scene.act_on_sender()


def _finalizer(scene: Scene) -> Callable[[float], BaseException | None]:
    _quiet_hook(scene)
    return _send_marked(scene, on_delivery=_Finalized(scene))


class _FinalizedAnywhere:
    """An object that runs the scene's code when it is freed, on whatever thread."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __del__(self) -> None:
        self.scene.act()


def _two_threads_compress(scene: Scene) -> dict[str, Any]:
    """The collector runs finalizers on any thread, but not at will: here an object is freed."""
    begins = threading.Event()
    made: list[int] = []

    def make_codec(codec: Codec, level: int | None) -> Callable[[Buffer], Buffer]:
        compress = compressor(codec, level)
        made.append(1)
        is_own = len(made) == 1

        def run(plain: Buffer) -> Buffer:
            if is_own:
                assert not scene.is_armed or begins.wait(WAIT_S)
            else:
                begins.set()
                _FinalizedAnywhere(scene)
            return compress(plain)

        return run

    return {
        "compression_type": "gzip",
        "compression_threads": 2,
        "environment": Environment(make_codec=make_codec, shared_bytes_min=0),
    }


def _send_two(scene: Scene) -> Callable[[float], BaseException | None]:
    _quiet_hook(scene)
    scene.producer.send(BESIDE, b"beside")
    return _send_marked(scene)


class _Weak:
    """A callback that may be referred to weakly."""

    def __call__(self, *_: object) -> None:
        """Be called as any other."""


def _weakref_callback(scene: Scene) -> Callable[[float], BaseException | None]:
    _quiet_hook(scene)
    callback = _Weak()
    reference = weakref.ref(callback, lambda _: scene.act_on_sender())
    scene.cleanups.append(reference)
    return _send_marked(scene, on_delivery=callback)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose own code runs where a thread rings it."""

    scene: Scene

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        """Ring, then run the scene's code."""
        handle = super().call_soon_threadsafe(*args, **kwargs)
        self.scene.act_on_sender()
        return handle


def _loop_hook(scene: Scene) -> Callable[[float], BaseException | None]:
    loop = _Loop()
    loop.scene = scene
    future = scene.producer.send(TOPIC, MARKED)
    awaits = threading.Event()

    async def wait() -> None:
        waiter = asyncio.ensure_future(_settled(future))
        await asyncio.sleep(0)  # the waiter has begun to wait
        awaits.set()
        await waiter

    thread = threading.Thread(target=lambda: loop.run_until_complete(wait()))
    thread.start()
    assert awaits.wait(WAIT_S)

    def end() -> None:
        thread.join(WAIT_S)
        loop.close()

    scene.cleanups.append(end)
    return future.exception


async def _settled(future: kprod.RecordFuture) -> None:
    with contextlib.suppress(KprodError):
        await future


def _trace_settings(scene: Scene) -> dict[str, Any]:
    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and "application_code" not in frame.f_code.co_filename:
            scene.act_on_sender()
        return trace

    scene.cleanups.append(trace_new_threads(trace))
    # A plain record takes the sender through compiled code alone; to tell an interceptor does not.
    return {"interceptors": [_Interceptor(scene, "nothing")]}


def _partitioner_settings(scene: Scene) -> dict[str, Any]:
    def choose(_: bytes | None, everyone: Sequence[int], __: Sequence[int]) -> int:
        scene.act()
        return everyone[0]

    return {"partitioner": choose}


def _serializer_settings(scene: Scene) -> dict[str, Any]:
    def serialize(value: bytes) -> bytes:
        scene.act()
        return value

    return {"value_serializer": serialize}


class _Index:
    """A number that runs the scene's code."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __index__(self) -> int:
        self.scene.act()
        return 0


class _Sequence(Sequence[Any]):
    """Headers that run the scene's code when they are asked for their number."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def __len__(self) -> int:
        self.scene.act()
        return 1

    def __getitem__(self, index: Any) -> Any:
        self.scene.act()
        return [("n", b"1")][index]


def _headers(scene: Scene) -> Callable[[float], BaseException | None]:
    def pairs() -> Iterator[tuple[str, bytes]]:
        yield ("n", b"1")
        scene.act()
        yield ("m", b"2")

    return _send_marked(scene, headers=pairs())


def _generator(scene: Scene) -> Callable[[float], BaseException | None]:
    def values() -> Iterator[bytes]:
        scene.act()
        yield MARKED

    return scene.producer.send_many(TOPIC, values()).exception


def _arrow_source(scene: Scene) -> Callable[[float], BaseException | None]:
    schema = pa.schema([("value", pa.binary())])

    def batches() -> Iterator[Any]:
        scene.act()
        yield pa.record_batch([pa.array([MARKED])], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    return scene.producer.send_arrow(TOPIC, reader).exception


def _signal_handler(scene: Scene) -> Callable[[float], BaseException | None]:
    usual = signal.signal(signal.SIGUSR1, lambda *_: scene.act())
    scene.cleanups.append(lambda: signal.signal(signal.SIGUSR1, usual))
    producer = scene.producer
    future = producer.send(TOPIC, MARKED)

    def disturb() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert scene.finished.wait(WAIT_S)
        with contextlib.suppress(KprodError):
            producer.flush(0)  # what the wait is for lingers

    thread = threading.Thread(target=disturb)
    scene.cleanups.append(thread.join)
    with contextlib.suppress(Planted, ValueError, KprodError):
        thread.start()
        future.exception(WAIT_S)
    return future.exception


class _Measured:
    """A producer, as an exporter sees it, behind the application's own code."""

    client_id = "measured"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def metrics(self) -> Any:
        """Run the scene's code, and read."""
        producer = self.scene.producer
        self.scene.act()
        return producer.metrics()


def _exporter(scene: Scene) -> Callable[[float], BaseException | None]:
    outcome = _send_marked(scene)
    with contextlib.suppress(Planted, ValueError):
        assert list(ProducerCollector(_Measured(scene)).collect())
    return outcome


_ALL = [
    Place("delivery callback", True, _on_delivery),
    Place("done-callback", True, _done_callback),
    Place("receipt's callback", True, _receipt_callback),
    Place(
        "interceptor's on_acknowledgement", True, _send_marked, _interceptor("on_acknowledgement")
    ),
    Place("interceptor's close", True, _send_marked, _interceptor("close")),
    Place("logging handler", True, _line_of_the_log(as_filter=False)),
    Place("logging filter", True, _line_of_the_log(as_filter=True)),
    Place("finalizer", True, _finalizer),
    Place("finalizer while batches are compressed", True, _send_two, _two_threads_compress),
    Place("weakref callback", True, _weakref_callback),
    Place("event loop's hook", True, _loop_hook),
    Place("trace function", True, _send_marked, _trace_settings),
    Place("partitioner", False, _send_marked, _partitioner_settings),
    Place("serializer", False, _send_marked, _serializer_settings),
    Place("interceptor's on_send", False, _send_marked, _interceptor("on_send")),
    Place(
        "`__index__` of a partition",
        False,
        lambda scene: _send_marked(scene, partition=_Index(scene)),
    ),
    Place(
        "`__len__` and items of headers",
        False,
        lambda scene: _send_marked(scene, headers=_Sequence(scene)),
    ),
    Place("headers' iterator", False, _headers),
    Place("generator of send_many", False, _generator),
    Place("Arrow source", False, _arrow_source),
    Place("signal handler", False, _signal_handler),
    Place("metrics exporter", False, _exporter),
]
PLACES = {place.name: place for place in _ALL}


def main(place: str, action: str, servers: str) -> None:
    """Play a scene, end the process as any other does, and say what became of the record."""
    logging.getLogger("kprod").addHandler(logging.NullHandler())  # anything on stderr is a fault
    scene = Scene(PLACES[place], ACTIONS[action], servers)
    scene.play()
    if scene.is_child:
        _end_child(scene)
    assert scene.finished.wait(WAIT_S)
    error = scene.closed_error if scene.outcome is None else scene.outcome(WAIT_S)
    scene.end()
    sys.stdout.write(f"{scene.child} {type(error).__name__}\n")


def _end_child(scene: Scene) -> None:
    """Leave the copy of a caller's process: what it sent is rejected, or fails."""
    error = scene.closed_error if scene.outcome is None else scene.outcome(0)
    os._exit(CHILD_OK if isinstance(error, ClosedError) else CHILD_WRONG)


if __name__ == "__main__":
    main(*sys.argv[1:])
