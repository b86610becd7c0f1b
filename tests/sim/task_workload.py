"""The application's operations in a run in which they are tasks of event loops.

The same operations as in `tests.sim.workload`, through an `AsyncProducer` that shares the engine.
A task may be cancelled: a send that was cancelled has accepted nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kprod import RecordFuture
from kprod.errors import KprodError
from tests.sim import workload
from tests.sim.oracle import Outcome, Sent
from tests.sim.plan import Entry
from tests.sim.scheduler import MS
from tests.sim.sim_loop import TaskCaller
from tests.sim.undelivered import Covered
from tests.sim.workload import GRACE_MS, outcome_of, outcome_of_future

if TYPE_CHECKING:
    from tests.sim.client import Client
    from tests.sim.world import World

Task = Callable[["World", "Client", TaskCaller, Entry], Coroutine[Any, Any, None]]
_PURGE_MS = 60_000


async def _timed(world: "World", name: str, limit_ms: float, call: Coroutine[Any, Any, Any]) -> Any:
    """Q4: await a call that must return within its time and half a second."""
    began_ns = world.scheduler.now_ns
    try:
        return await call
    except KprodError as error:
        world.count(f"task: {name} raised {type(error).__name__}")
        return error
    except asyncio.CancelledError:
        world.count(f"task: {name} was cancelled")
        raise
    finally:
        took_ms = (world.scheduler.now_ns - began_ns) / MS
        if took_ms > limit_ms + GRACE_MS:
            world.find("Q4", f"{name} of at most {limit_ms} ms took {took_ms:.1f} ms in a task")


async def send(world: "World", client: "Client", caller: TaskCaller, entry: Entry) -> None:
    """Send records one after another."""
    limit_ms = client.producer._kprod.config.max_block_ms
    for _ in range(entry["count"]):
        if world.is_calm:
            return
        await _timed(world, "send", limit_ms, _send_one(world, client, caller, entry))


async def ask(world: "World", client: "Client", caller: TaskCaller, entry: Entry) -> None:
    """Send records, and wait for the outcome of each."""
    for _ in range(entry["count"]):
        if world.is_calm:
            return
        known = len(client.records)
        await send(world, client, caller, {**entry, "count": 1})
        for record in client.records[known : known + 1]:
            future = client.futures.get(record.name)
            if future is not None:
                await _timed(world, "await", entry["wait_ms"], _outcome(future, entry["wait_ms"]))


async def _outcome(future: RecordFuture, wait_ms: int) -> None:
    try:
        async with asyncio.timeout(wait_ms / 1_000):
            await future
    except TimeoutError:
        pass


async def _send_one(world: "World", client: "Client", caller: TaskCaller, entry: Entry) -> None:
    record = client.new_record(entry["topic"], entry["size"], entry["partition"])
    record.caller = caller.number
    observers = entry.get("observers", 0)
    options: dict[str, Any] = {}
    if entry["partition"] >= 0:
        options["partition"] = entry["partition"]
    if entry.get("key", -1) >= 0:
        options["key"] = b"key-%d" % entry["key"]

    def note(outcome: Outcome) -> None:
        world.ledger.tell(record, outcome)
        workload.follow_habit(world, client, entry)

    def note_in_loop(outcome: Outcome | None) -> None:
        if client.is_on_sender:
            name = record.name.decode()
            world.find(
                "I15", f"a callback that a loop added for {name} runs on the sender's thread"
            )
        note(outcome or Outcome(-1, -1))

    if observers & 1:
        options["on_delivery"] = lambda metadata, error: note(outcome_of(metadata, error))
    client.in_calls += 1
    try:
        future = await client.async_producer.send(entry["topic"], record.value, **options)
    except KprodError as error:
        world.ledger.reject(record, error)
        world.count(f"task: send raised {type(error).__name__}")
        return
    finally:
        client.in_calls -= 1
    # Records whose sends wait side by side may be appended in any order.
    client.renumber(record)
    record.observers = (observers & 1) + (observers >> 1)
    client.futures[record.name] = future
    world.ledger.accept(record, lambda: outcome_of_future(future))
    if observers & 2:
        future.add_done_callback(lambda done: note_in_loop(outcome_of_future(done)))


async def send_many(world: "World", client: "Client", _: TaskCaller, entry: Entry) -> None:
    """Send records in one call."""
    records = client.new_records(entry)
    options: dict[str, Any] = {}
    if entry["partition"] >= 0:
        options["partitions"] = [entry["partition"]] * len(records)
    values = [record.value for record in records]
    await _bulk(
        world,
        client,
        records,
        client.async_producer.send_many(entry["topic"], values, **options),
    )


async def send_arrow(world: "World", client: "Client", _: TaskCaller, entry: Entry) -> None:
    """Send the rows of a table in one call."""
    records = client.new_records(entry)
    table = pa.table({"value": pa.array([record.value for record in records], pa.binary())})
    call = client.async_producer.send_arrow(entry["topic"], table)
    await _bulk(world, client, records, call)


async def _bulk(
    world: "World",
    client: "Client",
    records: list[Sent],
    call: Coroutine[Any, Any, Any],
) -> None:
    began_ns = world.scheduler.now_ns
    client.in_calls += len(records)
    # The thread of a call that is cancelled may have accepted some, of which nobody hears.
    client.unheard |= {record.name for record in records}
    try:
        receipt = await call
    except (KprodError, ValueError) as error:
        if not hasattr(error, "receipt"):
            return
        receipt = error.receipt
    finally:
        client.in_calls -= len(records)
    client.unheard -= {record.name for record in records}
    client.receipts.append(receipt)
    for index, record in enumerate(records[: receipt.record_count]):
        record.caller = -records[0].order  # the call's own thread sent them
        world.ledger.accept(record, partial(workload.bulk_outcome, receipt, index), began_ns)


async def flush_soon(  # noqa: RUF029 - one of several
    world: "World", client: "Client", _: TaskCaller, entry: Entry
) -> None:
    """Let the producer send what lingers."""
    workload.flush_soon(world, client, entry)


async def flush(world: "World", client: "Client", _: TaskCaller, entry: Entry) -> None:
    """Flush with a timeout."""
    covered = Covered(world, client)
    flushing = client.async_producer.flush(entry["wait_ms"] / 1_000)
    left = await _timed(world, "flush", entry["wait_ms"], flushing)
    if isinstance(left, int):
        world.count("task: flush left records" if left else "task: flush left none")
        covered.check("flush", left)


async def purge(
    world: "World",
    client: "Client",
    _: TaskCaller,
    entry: Entry,  # noqa: ARG001
) -> None:
    """Purge unsent records."""
    world.count("purge")
    world.happened("purge")
    await _timed(world, "purge", _PURGE_MS, client.async_producer.purge())


async def result(world: "World", client: "Client", _: TaskCaller, entry: Entry) -> None:
    """Wait for the outcomes of the latest records."""
    for record in [record for record in client.records[-3:] if record.is_alone]:
        future = client.futures[record.name]
        await _timed(world, "await", entry["wait_ms"], _outcome(future, entry["wait_ms"]))


async def cancel(  # noqa: RUF029 - one of several
    world: "World",
    client: "Client",  # noqa: ARG001
    caller: TaskCaller,
    entry: Entry,
) -> None:
    """Cancel another task."""
    if caller.cancel_one(entry["choice"]):
        world.count("task was cancelled")


async def close(  # noqa: RUF029 - one of several
    world: "World", client: "Client", _: TaskCaller, entry: Entry
) -> None:
    """Close the producer and continue with a new one, in a thread: the engine is shared."""
    world.count("close in the middle")
    timeout_s = entry["wait_ms"] / 1_000
    world.call_in_thread(lambda: world.replace(client, timeout_s))


TASKS: Mapping[str, Task] = {
    "send": send,
    "ask": ask,
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
