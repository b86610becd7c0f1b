"""Every way to hear of a record's outcome, each of which notes what it heard."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kprod.errors import KprodError
from kprod.model import RecordMetadata
from kprod.producer.future import RecordFuture, as_completed
from kprod.producer.receipt import SendReceipt

SETTLE_S = 120.0  # ends a broken test, never its rhythm
Outcome = tuple[object, ...]


def outcome_of(metadata: RecordMetadata | None, error: BaseException | None) -> Outcome:
    """A notification of an observer, in a form that can be compared."""
    if metadata is not None:
        assert error is None, "exactly one of them is None"
        return ("delivered", *metadata)
    assert isinstance(error, KprodError), repr(error)
    return ("failed", type(error).__name__, str(error), error.persistence)


def outcome_of_done(record: Any) -> Outcome:
    """Return the outcome of a settled future: kprod's, a view or a task."""
    error = record.exception()
    return outcome_of(None if error is not None else record.result(), error)


class Observed:
    """One record: what its observers heard, and how many observers there are.

    Attributes:
        value: Value of the record.
        future: None until `send` returns, and for a record of a bulk send.
        heard: One list for each observer; each gets exactly one outcome.
    """

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.future: RecordFuture | None = None
        self.heard: list[list[Outcome]] = []

    def ear(self) -> list[Outcome]:
        """Add an observer; returns where it puts what it hears."""
        made: list[Outcome] = []
        self.heard.append(made)
        return made

    def on_delivery(self) -> Callable[[RecordMetadata | None, KprodError | None], None]:
        """Make an observer for `send`."""
        ear = self.ear()
        return lambda metadata, error: ear.append(outcome_of(metadata, error))


class Observers:
    """The event loop and the threads of one example's observers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._threads: list[threading.Thread] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._failures: list[BaseException] = []

    def add(self, kind: str, records: Sequence[Observed]) -> None:
        """Let one observer of a kind hear of records that were sent."""
        KINDS[kind](self, records)

    def in_thread(self, call: Callable[[], object]) -> None:
        """Let a thread make a call; it has begun when this returns."""
        begun = threading.Event()

        def run() -> None:
            begun.set()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - `finish` says what it was
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert begun.wait(SETTLE_S)
        self._threads.append(thread)

    def in_loop(self, steps: Coroutine[Any, Any, None]) -> None:
        """Start a task; it has taken its first step when this returns."""
        self._tasks.append(self.loop.create_task(steps))
        self.turn()

    def call_in_loop(self, call: Callable[[], object]) -> None:
        """Make a call while the loop runs."""

        async def run() -> None:
            await asyncio.sleep(0)
            call()

        self.loop.run_until_complete(run())

    def turn(self) -> None:
        """Let the loop do what there is."""
        self.loop.run_until_complete(_turns())

    def finish(self) -> None:
        """Wait until every observer has heard of everything."""
        for thread in self._threads:
            thread.join(SETTLE_S)
            assert not thread.is_alive(), "a thread waits for a record that is settled"
        self.turn()
        waiting = [task for task in self._tasks if not task.done()]
        assert not waiting, "a task waits for a record that is settled"
        self._failures += [error for task in self._tasks if (error := task.exception())]
        assert self._failures == []

    def close(self) -> None:
        """Cancel what a failed example has left."""
        for task in self._tasks:
            task.cancel()
        self.turn()
        self.loop.close()


async def _turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def _futures(records: Sequence[Observed]) -> dict[RecordFuture, list[Outcome]]:
    return {record.future: record.ear() for record in records if record.future is not None}


def _note(ear: list[Outcome]) -> Callable[[Any], None]:
    return lambda done: ear.append(outcome_of_done(done))


def _done_callback(_: Observers, records: Sequence[Observed]) -> None:
    for future, ear in _futures(records).items():
        future.add_done_callback(_note(ear))


def _loop_done_callback(observers: Observers, records: Sequence[Observed]) -> None:
    observers.call_in_loop(lambda: _done_callback(observers, records))


def _removed_callback(observers: Observers, records: Sequence[Observed]) -> None:
    """One that is taken back at once hears nothing; it must take no other with it."""

    def unwanted(_: RecordFuture) -> None:
        raise AssertionError("this callback was taken back")

    def check() -> None:
        for record in records:
            if record.future is not None and not record.future.done():
                record.future.add_done_callback(unwanted)
                assert record.future.remove_done_callback(unwanted) == 1

    check()
    observers.call_in_loop(check)


def _view(_: Observers, records: Sequence[Observed]) -> None:
    for future, ear in _futures(records).items():
        view = future.to_concurrent()
        view.add_done_callback(_note(ear))


def _result(observers: Observers, records: Sequence[Observed]) -> None:
    def wait() -> None:
        for future, ear in ears.items():
            try:
                ear.append(outcome_of(future.result(SETTLE_S), None))
            except KprodError as error:
                ear.append(outcome_of(None, error))

    ears = _futures(records)
    observers.in_thread(wait)


def _as_completed(observers: Observers, records: Sequence[Observed]) -> None:
    def wait() -> None:
        for future in as_completed(list(ears), SETTLE_S):
            ears[future].append(outcome_of_done(future))

    ears = _futures(records)
    observers.in_thread(wait)


def _await(observers: Observers, records: Sequence[Observed]) -> None:
    async def wait(future: RecordFuture, ear: list[Outcome]) -> None:
        try:
            ear.append(outcome_of(await future, None))
        except KprodError as error:
            ear.append(outcome_of(None, error))

    for future, ear in _futures(records).items():
        observers.in_loop(wait(future, ear))


def _asyncio_wait(observers: Observers, records: Sequence[Observed]) -> None:
    """First for settled records, which must leave no trace, then one by one, then for all."""

    async def wait() -> None:
        pending: set[Any] = set(ears)
        await asyncio.wait(pending, timeout=0)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                ears[future].append(outcome_of_done(future))

    ears = _futures(records)
    if ears:
        observers.in_loop(wait())


def _asyncio_gather(observers: Observers, records: Sequence[Observed]) -> None:
    async def wait() -> None:
        found = await asyncio.gather(*ears, return_exceptions=True)
        for ear, each in zip(ears.values(), found, strict=True):
            failed = isinstance(each, BaseException)
            ear.append(outcome_of(*((None, each) if failed else (each, None))))

    ears = _futures(records)
    observers.in_loop(wait())


KINDS: dict[str, Callable[[Observers, Sequence[Observed]], None]] = {
    "add_done_callback": _done_callback,
    "add_done_callback in a loop": _loop_done_callback,
    "a callback that is taken back": _removed_callback,
    "to_concurrent": _view,
    "result": _result,
    "as_completed": _as_completed,
    "await": _await,
    "asyncio.wait": _asyncio_wait,
    "asyncio.gather": _asyncio_gather,
}


def receipt_outcome(receipt: SendReceipt) -> Outcome:
    """Return the outcomes in a settled receipt."""
    error = receipt.exception(0)
    failures = tuple((failure.index, str(failure.error)) for failure in receipt.failures())
    return (type(error).__name__, str(error), tuple(receipt.delivered().items()), failures)


def _receipt_result(observers: Observers, receipt: SendReceipt, ear: list[Outcome]) -> None:
    def wait() -> None:
        receipt.exception(SETTLE_S)
        ear.append(receipt_outcome(receipt))

    observers.in_thread(wait)


def _receipt_callback(_: Observers, receipt: SendReceipt, ear: list[Outcome]) -> None:
    receipt.add_done_callback(lambda done: ear.append(receipt_outcome(done)))


def _receipt_loop_callback(observers: Observers, receipt: SendReceipt, ear: list[Outcome]) -> None:
    observers.call_in_loop(lambda: _receipt_callback(observers, receipt, ear))


def _receipt_await(observers: Observers, receipt: SendReceipt, ear: list[Outcome]) -> None:
    async def wait() -> None:
        with contextlib.suppress(KprodError):
            await receipt
        ear.append(receipt_outcome(receipt))

    observers.in_loop(wait())


def _receipt_asyncio_wait(observers: Observers, receipt: SendReceipt, ear: list[Outcome]) -> None:
    async def wait() -> None:
        waited_for: Any = [receipt]
        await asyncio.wait(waited_for, timeout=0)
        done, _ = await asyncio.wait(waited_for)
        assert done == {receipt}
        ear.append(receipt_outcome(receipt))

    observers.in_loop(wait())


RECEIPT_KINDS: dict[str, Callable[[Observers, SendReceipt, list[Outcome]], None]] = {
    "result": _receipt_result,
    "add_done_callback": _receipt_callback,
    "add_done_callback in a loop": _receipt_loop_callback,
    "await": _receipt_await,
    "asyncio.wait": _receipt_asyncio_wait,
}
