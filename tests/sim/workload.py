"""The application's operations in a run: one function for each kind.

Observers note what they are told; habits are what applications do in callbacks although it is a
bad idea: they raise, send, flush.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kprod import RecordFuture, SendReceipt
from kprod.errors import KprodError
from tests.sim.oracle import Outcome, Sent
from tests.sim.plan import Entry
from tests.sim.scheduler import MS
from tests.sim.undelivered import Covered

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.world import World


class HabitError(RuntimeError):
    """An exception of the application's callback."""


def outcome_of(metadata: Any, error: BaseException | None) -> Outcome:
    """Return what an observer was told."""
    if error is None:
        return Outcome(metadata.partition, metadata.offset)
    persistence = getattr(error, "persistence", None)
    return Outcome(-1, -1, type(error).__name__, persistence.name if persistence else "")


def outcome_of_future(future: RecordFuture) -> Outcome | None:
    """Return how a record ended; None if it has not."""
    if not future.done():
        return None
    error = future.exception(0)
    return outcome_of(None if error else future.result(0), error)


def send(world: "World", client: "Client", entry: Entry) -> None:
    """Send records one by one."""
    for _ in range(entry["count"]):
        send_one(world, client, entry)


def send_one(world: "World", client: "Client", entry: Entry) -> None:
    """Send one record, with its observers."""
    record = client.new_record(entry["topic"], entry["size"], entry["partition"])
    observers = entry.get("observers", 0)
    options: dict[str, Any] = {}
    if entry["partition"] >= 0:
        options["partition"] = entry["partition"]
    if entry.get("key", -1) >= 0:
        options["key"] = b"key-%d" % entry["key"]

    def note(outcome: Outcome) -> None:
        has_threads = world.plan.mode == "threads"
        if has_threads and is_sent and not (client.is_on_sender or client.has_ended):
            world.find("I15", f"{record.name.decode()} is told on a thread of the application")
        world.ledger.tell(record, outcome)
        follow_habit(world, client, entry)

    if observers & 1:
        options["on_delivery"] = lambda metadata, error: note(outcome_of(metadata, error))
    is_sent = False  # before, a record may be settled in the call itself
    client.in_calls += 1
    try:
        future = client.producer.send(entry["topic"], record.value, **options)
    except KprodError as error:
        world.ledger.reject(record, error)
        return
    finally:
        client.in_calls -= 1
    record.observers = (observers & 1) + (observers >> 1)
    client.futures[record.name] = future
    world.ledger.accept(record, lambda: outcome_of_future(future))
    if observers & 2:
        future.add_done_callback(lambda done: note(outcome_of_future(done) or Outcome(-1, -1)))
    is_sent = True


def send_many(world: "World", client: "Client", entry: Entry) -> None:
    """Send records in one call."""
    records = client.new_records(entry)
    options: dict[str, Any] = {}
    if entry["partition"] >= 0:
        options["partitions"] = [entry["partition"]] * len(records)
    _bulk(
        world,
        client,
        records,
        lambda: client.producer.send_many(
            entry["topic"], [record.value for record in records], **options
        ),
    )


def send_arrow(world: "World", client: "Client", entry: Entry) -> None:
    """Send the rows of a table in one call."""
    records = client.new_records(entry)
    table = pa.table({"value": pa.array([record.value for record in records], pa.binary())})
    _bulk(world, client, records, lambda: client.producer.send_arrow(entry["topic"], table))


def _bulk(
    world: "World", client: "Client", records: list[Sent], call: Callable[[], SendReceipt]
) -> None:
    """Make a bulk call; what it accepted is in its receipt, also when it raises."""
    began_ns = world.scheduler.now_ns
    client.in_calls += len(records)
    try:
        receipt = call()
    except (KprodError, ValueError) as error:
        if not hasattr(error, "receipt"):
            return
        receipt = error.receipt
    finally:
        client.in_calls -= len(records)
    client.receipts.append(receipt)
    # Rejected records are among the receipt's failures, as are those that failed since.
    for index, record in enumerate(records[: receipt.record_count]):
        world.ledger.accept(record, partial(bulk_outcome, receipt, index), began_ns)


def bulk_outcome(receipt: SendReceipt, index: int) -> Outcome | None:
    """Return a record's outcome by its receipt, which knows offsets by partition only."""
    if not receipt.done():
        return None
    for failure in receipt.failures():
        if failure.index == index:
            return outcome_of(None, failure.error)
    return Outcome(-1, -1)


def flush_soon(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Let the producer send what lingers."""
    client.producer._kprod.flush_soon()


def flush(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Flush without waiting: the number that is returned is the number that is not delivered."""
    covered = Covered(world, client)
    covered.check("flush", client.producer.flush(0))


def purge(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Purge unsent records, in the sender's turn."""
    engine = client.producer._kprod
    world.count("purge")
    world.happened("purge")
    engine.sender.call_soon(engine.delivery.purge)
    engine.wake()


def result(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Ask for outcomes without waiting."""
    for record in client.records[-5:]:
        world.ledger.ask(record)


def cancel(world: "World", client: "Client", entry: Entry) -> None:
    """Do nothing: only tasks can be cancelled."""


def close(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Close the producer, and continue with a new one."""
    world.count("close in the middle")
    world.replace(client)


OPERATIONS: Mapping[str, Callable[["World", "Client", Entry], None]] = {
    "send": send,
    "ask": send,
    "send_many": send_many,
    "send_arrow": send_arrow,
    "flush_soon": flush_soon,
    "flush": flush,
    "purge": purge,
    "result": result,
    "cancel": cancel,
    "close": close,
}
"""Every kind of operation by its name in a plan."""


def timed(world: "World", name: str, limit_ms: int, call: Callable[[], object]) -> object:
    """Q4, Q5: make a call that must return within its time and half a second."""
    began_ns = world.scheduler.now_ns
    try:
        return call()
    except KprodError as error:
        world.count(f"{name} raised {type(error).__name__}")
        return error
    finally:
        took_ms = (world.scheduler.now_ns - began_ns) / MS
        if name == "send" and took_ms > LINE_MS and not world.book:
            world.find("Q5", f"a send waited {took_ms:.1f} ms while no broker was slow")
        if took_ms > limit_ms + GRACE_MS:
            world.find("Q4", f"{name} of at most {limit_ms} ms took {took_ms:.1f} ms")


def _send_name(world: "World", entry: Entry) -> str:
    """Tell sends to partitions that there are not (yet) from others: those wait for a response."""
    return "send" if entry["partition"] < world.plan.topics[entry["topic"]] else "send beyond"


def send_waiting(world: "World", client: "Client", entry: Entry) -> None:
    """Send records one by one, each of which may wait for its topic and for memory."""
    limit_ms = client.producer._kprod.config.max_block_ms
    for _ in range(entry["count"]):
        if world.is_calm:
            return
        timed(world, _send_name(world, entry), limit_ms, lambda: send_one(world, client, entry))


def ask_waiting(world: "World", client: "Client", entry: Entry) -> None:
    """Send records one by one, and wait for the outcome of each, as a request handler does."""
    timeout_s = entry["wait_ms"] / 1_000
    limit_ms = client.producer._kprod.config.max_block_ms
    for _ in range(entry["count"]):
        if world.is_calm:
            return
        known = len(client.records)
        timed(world, _send_name(world, entry), limit_ms, lambda: send_one(world, client, entry))
        for record in client.records[known : known + 1]:
            future = client.futures.get(record.name)
            if future is not None:
                timed(
                    world,
                    "result",
                    entry["wait_ms"],
                    lambda asked=future: asked.exception(timeout_s),  # type: ignore[misc]
                )
                world.count("asked at once")


def flush_waiting(world: "World", client: "Client", entry: Entry) -> None:
    """Flush with a timeout."""
    timeout_s = entry["wait_ms"] / 1_000
    covered = Covered(world, client)
    left = timed(world, "flush", entry["wait_ms"], lambda: client.producer.flush(timeout_s))
    if isinstance(left, int):
        world.count("flush left records" if left else "flush left none")
        covered.check("flush", left)


def purge_waiting(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    """Purge unsent records; the sender's thread does it."""
    world.count("purge")
    world.happened("purge")
    timed(world, "purge", 60_000, client.producer.purge)


def result_waiting(world: "World", client: "Client", entry: Entry) -> None:
    """Wait for the outcomes of the latest records."""
    timeout_s = entry["wait_ms"] / 1_000
    for record in [record for record in client.records[-3:] if record.is_alone]:
        future = client.futures[record.name]
        error = timed(
            world,
            "result",
            entry["wait_ms"],
            lambda asked=future: asked.exception(timeout_s),  # type: ignore[misc]
        )
        world.count("result waited" if error is None else "result failed")


def close_waiting(world: "World", client: "Client", entry: Entry) -> None:
    """Close the producer with a timeout; others continue with a new one meanwhile."""
    world.count("close in the middle")
    timeout_s = entry["wait_ms"] / 1_000
    timed(world, "close", entry["wait_ms"], lambda: world.replace(client, timeout_s))


WAITING: Mapping[str, Callable[["World", "Client", Entry], None]] = {
    "send": send_waiting,
    "ask": ask_waiting,
    "send_many": send_many,
    "send_arrow": send_arrow,
    "flush_soon": flush_soon,
    "flush": flush_waiting,
    "purge": purge_waiting,
    "result": result_waiting,
    "cancel": cancel,
    "close": close_waiting,
}
"""The same, in threads that may wait."""


def _raise(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    world.count("callback raises")
    raise HabitError("a callback of the simulation raises")


def _send_again(world: "World", client: "Client", entry: Entry) -> None:
    if client.is_over or world.is_calm or client.answers >= client.answers_max:
        return
    client.answers += 1
    world.count("callback sends")
    send_one(world, client, {**entry, "habit": "", "size": 20})


def _resend(world: "World", client: "Client", entry: Entry) -> None:
    """Send undelivered records again, as many applications do."""
    if client.is_over or world.is_calm or not client.told_last.error:
        return
    world.count("callback sends again")
    send_one(world, client, {**entry, "habit": "", "size": 20})


def _flush_inside(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    world.count("callback flushes")
    with contextlib.suppress(KprodError):
        client.producer.flush(0)


def _sleep(world: "World", client: "Client", entry: Entry) -> None:
    if client.is_on_sender and client.answers < client.answers_max and not world.is_calm:
        client.answers += 1
        world.count("callback sleeps")
        client.sleep_in_callback((20, 400, LONGEST_SLEEP_MS)[entry["size"] % 3])


def _purge_inside(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    world.count("callback purges")
    world.happened("purge")
    with contextlib.suppress(KprodError):
        client.producer.purge()


def _close_inside(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    world.count("callback closes")
    world.replace(client)


def _logs(world: "World", client: "Client", entry: Entry) -> None:  # noqa: ARG001
    repr(client.producer)
    client.producer.metrics()


HABITS: Mapping[str, Callable[["World", "Client", Entry], None]] = {
    "raise": _raise,
    "send": _send_again,
    "resend": _resend,
    "flush": _flush_inside,
    "logs": _logs,
    "sleep": _sleep,
    "purge": _purge_inside,
    "close": _close_inside,
}
"""The actions of callbacks, by their name in a plan."""


def follow_habit(world: "World", client: "Client", entry: Entry) -> None:
    """Do in a callback what the operation says; nothing that blocks in an event loop."""
    is_in_loop = world.plan.mode == "tasks" and not client.is_on_sender
    if (habit := entry.get("habit", "")) and not (is_in_loop and habit != "raise"):
        client.telling += 1
        try:
            HABITS[habit](world, client, entry)
        finally:
            client.telling -= 1


GRACE_MS = 500
LINE_MS = 100
"""Longest wait for memory without any fault: batches do not linger while somebody waits."""
LONGEST_SLEEP_MS = 1_500
"""Longest sleep of a callback."""
TICK_NS = 2 * MS
"""How late a record may be settled: a tick of the timer, and one of the clock."""
