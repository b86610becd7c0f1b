"""A bulk send's account when memory ends: each record has one outcome, nobody waits for ever."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.bulk_share import BatchShare
from kprod.errors import DeliveryTimeout, KprodError
from tests.producer.bench import TOPIC, Bench

memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")
ALLOCATIONS_MAX = 300  # more than anything here needs
ERROR = KprodError("bad")


def _shared(account: BulkAccount, result: BatchResult, first: int) -> BatchShare:
    """A share of six records, every second one of its batch."""
    share = BatchShare(account, result)
    share.watch()
    for index in range(6):
        share.note(1000 + 2 * index, first + index)
        account.record_count += 1
    return share


def _failing_at(allocation: int, act: Callable[[], object]) -> bool:
    """Let one allocation fail while something compiled is done; whether that raised."""
    # Compiled: when it enters bytecode the interpreter may make a copy, as after a profiler's end.
    gc.disable()  # a collection would allocate, or not
    memory.set_nomemory(allocation, allocation + 1)
    try:
        act()
    except MemoryError:
        return True
    finally:
        memory.remove_mem_hooks()
        gc.enable()
    return False


@pytest.mark.parametrize(
    ("error", "record_errors", "lost"),
    [
        (None, None, set()),
        (DeliveryTimeout("late"), None, set(range(6))),
        (None, {1002: ERROR, 1010: ERROR}, {1, 5}),
    ],
)
def test_a_batch_s_end_needs_no_memory(
    error: KprodError | None, record_errors: dict[int, KprodError] | None, lost: set[int]
) -> None:
    """Whichever allocation fails, the account is closed, and says afterwards what became of all."""
    for allocation in range(ALLOCATIONS_MAX):
        account = BulkAccount()
        results = [BatchResult("t", 3) for _ in range(3)]
        for number, result in enumerate(results):
            _shared(account, result, 6 * number)
        account.seal()
        results[0].complete(20_000)
        _failing_at(
            allocation,
            partial(results[1].complete, 30_000, -1, error, record_errors),
        )
        results[2].complete(40_000)
        assert account.done
        assert all(result.finished for result in results)
        assert [place for place, _ in account.failures()] == [6 + index for index in sorted(lost)]
        assert account.failed_count == len(lost)
        count, ranges = account.delivered()[3]
        assert count == 18 - len(lost)
        whole = [(21_000, 21_010), (31_000, 31_010), (41_000, 41_010)]
        assert ranges == (whole if len(lost) < 6 else [whole[0], whole[2]])
        assert account.delivered()[3] == (count, ranges)


def test_a_split_is_whole_or_nothing() -> None:
    """Without memory for it the whole batch still settles its records."""
    attempts = 0
    for allocation in range(ALLOCATIONS_MAX):
        tallies = [BulkAccount(), BulkAccount()]
        result = BatchResult("t", 0)
        for account in tallies:
            _shared(account, result, 0)
            account.seal()
        parts = [BatchResult("t", 0) for _ in range(3)]
        forwards = list(zip((0, 1001, 1008), parts, strict=True))
        if _failing_at(allocation, partial(result.forward, forwards)):
            attempts += 1
            result.complete(error=ERROR)
            assert [len(account.failures()) for account in tallies] == [6, 6]
        else:
            parts[0].complete(5)
            parts[1].complete(error=ERROR)
            parts[2].complete(9)
            assert [len(account.failures()) for account in tallies] == [3, 3]
        assert all(account.done for account in tallies)
    assert attempts


def test_a_split_without_memory_keeps_the_callbacks() -> None:
    """They run once, with the outcome of their own record."""
    told: list[str] = []

    def telling(name: str) -> Callable[..., None]:
        return lambda *_: told.append(name)

    attempts = 0
    for allocation in range(0, ALLOCATIONS_MAX, 2):
        bench = Bench()
        futures = [
            bench.producer.send(TOPIC, b"x", partition=0, on_delivery=telling(name))
            for name in "abcd"
        ]
        futures[2].add_done_callback(telling("C"))
        result = bench.head.queues[0].result
        parts = [BatchResult(TOPIC, 0) for _ in range(2)]
        forwards = [(0, parts[0]), (3, parts[1])]
        if _failing_at(allocation, partial(result.forward, forwards)):
            attempts += 1
            result.complete(10)
        else:
            parts[0].complete(10)
            parts[1].complete(13)
        assert "".join(told) == "abcCd"
        assert [future.result(0).offset for future in futures] == [10, 11, 12, 13]
        told.clear()
    assert attempts


class _DeafLoop(asyncio.SelectorEventLoop):
    """Cannot be called from elsewhere: its process has no descriptor left, say."""

    def call_soon_threadsafe(  # type: ignore[override]  # called with anything, it raises
        self, *_: Any, **__: Any
    ) -> Any:
        raise OSError("no descriptor left")


def test_telling_one_waiter_keeps_no_other_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A waiter that cannot be woken is reported; the callbacks run, and a flush ends."""
    bench = Bench()
    told: list[object] = []
    future = bench.producer.send(
        TOPIC, b"x", partition=0, on_delivery=lambda *outcome: told.append(outcome)
    )
    result = bench.head.queues[0].result

    async def wait() -> None:
        waiting = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        bench.run()
        waiting.cancel()

    with asyncio.Runner(loop_factory=_DeafLoop) as runner:
        runner.run(wait())
    assert len(told) == 1
    assert result.finished
    assert future.result(0).offset == 0
    assert len(caplog.records) == 1
